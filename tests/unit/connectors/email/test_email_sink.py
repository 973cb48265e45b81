"""What is known of mails before any server is asked."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.connectors.email import sink
from headrace.connectors.email.sink import ID_HEADER, _mails
from headrace.errors import ConfigError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import Email


def _made(**fields):
    row = {"to": "ann@example.org", "subject": "Hello", "body": "x", "id": "0-1", **fields}
    piece = Slice(LaneId("mail", "acme", "t[0]"), "t", 0, 1, epoch=1)
    (mail,) = _mails(Effect((piece,), (1,), pa.Table.from_pylist([row])), "news@example.org")
    return mail


@pytest.mark.parametrize("sender", ["", "news", "a@b\nBcc: c@d", "News <a@b.c>"])
def test_a_sender_that_is_no_plain_address_is_refused_when_it_is_named(sender):
    with pytest.raises(ConfigError, match="no address"):
        Email(sender)


def test_without_a_mail_server_nothing_is_prepared():
    with pytest.raises(ConfigError, match="address of a mail server"):
        Email("a@b.c").prepare(Site(Connections({}, ""), positions=None))


def test_the_message_id_does_not_change_with_what_the_mail_says():
    assert _made(subject="A")["Message-ID"] == _made(subject="B", body="y")["Message-ID"]
    assert _made(id="0-1")["Message-ID"] != _made(id="0-2")["Message-ID"]


def test_long_headers_stay_readable_text():
    mail = _made(subject="x" * 300, id="0-" + "1" * 200)
    lines = mail.as_bytes().decode("ascii").splitlines()
    assert f"Message-ID: {mail['Message-ID']}" in lines
    assert f"{ID_HEADER}: mail/acme/0-{'1' * 200}" in lines
    assert f"Subject: {'x' * 300}" in lines


class _OddLibrary:
    """A connection that keeps its mails; the library under it gives up at some."""

    def __init__(self):
        self.sent = []

    def send_message(self, mail, *_):
        if mail["Subject"] == "odd":
            raise AttributeError("a parser of the library gave up")
        self.sent.append(mail["Subject"])

    def noop(self):
        return (250, b"")

    def close(self):
        self.sent.append("a new connection")


def test_what_the_library_raises_of_one_mail_repeats_and_stops_no_other(monkeypatch):
    smtp = _OddLibrary()
    monkeypatch.setattr(sink, "connect", lambda _: smtp)
    writer = Email("news@example.org").open(Site(Connections({}, "", smtp_url="smtp://h:25"), None))
    effects = [_effect(["a"], "acme"), _effect(["b", "odd"], "bolt"), _effect(["c"], "cern")]
    outcomes = writer.write(effects)
    assert [outcome.error and outcome.error.code for outcome in outcomes] == [
        None,
        "SinkRefused",
        None,
    ]
    writer.write(effects[1:2])
    assert smtp.sent == ["a", "b", "a new connection", "c", "a new connection"]


def _effect(subjects, tenant):
    columns = {"to": ["ann@example.org"] * len(subjects)}
    columns |= dict.fromkeys(("subject", "body", "id"), subjects)
    piece = Slice(LaneId("news", tenant, "t[0]"), "t", 0, 9, epoch=1)
    return Effect((piece,), (9,), pa.table(columns))
