"""What becomes of a mail when the server refuses, breaks off or is away."""

from __future__ import annotations

import asyncio
import email
import email.policy
import socket
import ssl

import pyarrow as pa
import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from headrace.connectors.email import server as smtp_server
from headrace.connectors.email import sink as email_sink
from headrace.connectors.email.server import connect
from headrace.connectors.email.sink import ID_HEADER
from headrace.errors import ConfigError
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Site
from headrace.sinks import Email
from own_tls import tls_files


class Postman:
    """Takes mails, and can be told to refuse a receiver or to break off."""

    def __init__(self):
        self.mails = []
        self.sessions = set()
        self.refuse = {}
        self.refuse_sender = ""
        self.break_off_after_taking = 0
        self.thinks_s = 0.0

    async def handle_MAIL(self, server, session, envelope, address, options):  # noqa: N802
        if self.refuse_sender:
            return self.refuse_sender
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        self.sessions.add(session.peer)
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.mails.append(mail)
        await asyncio.sleep(self.thinks_s)
        if self.break_off_after_taking:
            self.break_off_after_taking -= 1
            server.transport.close()
        return "250 OK"


class AnyPort(Controller):
    """Takes a port that is free and tells which."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@pytest.fixture
def postman():
    return Postman()


@pytest.fixture
def server(postman):
    controller = AnyPort(postman, hostname="127.0.0.1", port=0)
    controller.start()
    yield controller
    if controller.server is not None:
        controller.stop()


@pytest.fixture
def writer(server):
    made = Email("news@example.org").open(_site(f"smtp://127.0.0.1:{server.port}"))
    yield made
    made.close()


def _site(url):
    return Site(Connections({}, "", smtp_url=url), positions=None)


def _effect(*rows, tenant="acme", may_repeat=True):
    names = ("to", "subject", "body", "id")
    table = pa.table({name: [row[n] for row in rows] for n, name in enumerate(names)})
    piece = Slice(LaneId("mail", tenant, "t[0]"), "t", 0, len(rows), epoch=1)
    return Effect((piece,), (len(rows),), table, may_repeat=may_repeat)


def _row(name, row_id="0-1"):
    return (f"{name}@example.org", f"Hello {name}", "Line one\n\nLine two", row_id)


def test_a_mail_arrives_as_it_was_written(writer, postman):
    writer.write([_effect(("zoe@example.org", "Grüße", "Schöne Grüße\n", "0-7"))])
    (mail,) = postman.mails
    assert (mail["From"], mail["To"]) == ("news@example.org", "zoe@example.org")
    assert mail["Subject"] == "Grüße"
    assert mail.get_content().splitlines() == ["Schöne Grüße"]
    assert mail[ID_HEADER] == "mail/acme/0-7"


def test_the_message_id_is_made_of_use_case_tenant_and_id_alone(writer, postman):
    writer.write([_effect(_row("ann")), _effect(_row("bob")), _effect(_row("ann"), tenant="bolt")])
    first, same, other = (mail["Message-ID"] for mail in postman.mails)
    assert first == same != other
    assert first.endswith("@headrace>")


def test_a_receiver_refused_for_good_stops_its_own_effect_only(writer, postman):
    postman.refuse["bad@example.org"] = "550 no such user"
    outcomes = writer.write([_effect(_row("ann")), _effect(_row("bad")), _effect(_row("bob"))])
    assert [outcome.error and outcome.error.code for outcome in outcomes] == [
        None,
        "SinkRefused",
        None,
    ]
    assert "row 0" in outcomes[1].error.message
    assert "550 no such user" in outcomes[1].error.message


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("530 5.7.0 authentication required", "TargetMissing"),
        ("553 5.7.1 sender not allowed", "TargetMissing"),
        ("554 5.7.1 account suspended", "TargetMissing"),
        ("552 5.3.4 message too large", "SinkRefused"),
        ("451 try later", "SinkUnavailable"),
    ],
)
def test_a_server_that_refuses_us_blames_no_mail(writer, postman, answer, code):
    postman.refuse_sender = answer
    (outcome,) = writer.write([_effect(_row("ann"))])
    assert outcome.error.code == code
    assert answer in outcome.error.message


def test_a_receiver_refused_for_now_is_temporary(writer, postman):
    postman.refuse["grey@example.org"] = "451 try later"
    outcomes = writer.write([_effect(_row("grey")), _effect(_row("bob"))])
    assert outcomes[0].error.temporary
    assert outcomes[1].error is None


def test_mails_sent_before_a_refusal_are_not_sent_again_by_the_same_writer(writer, postman):
    postman.refuse["bad@example.org"] = "550 no such user"
    writer.write([_effect(_row("ann", "0-1"), _row("bad", "0-2"))])
    outcomes = writer.write([_effect(_row("ann", "0-1"))])
    assert outcomes[0].error is None
    assert [mail["To"] for mail in postman.mails] == ["ann@example.org"]


def test_another_mail_under_the_same_id_is_not_taken_for_a_repeat(writer, postman):
    postman.refuse["bad@example.org"] = "550 no such user"
    writer.write([_effect(_row("ann", "0-1"), _row("bad", "0-2"))])
    writer.write([_effect(_row("eve", "0-1"))])
    assert [mail["To"] for mail in postman.mails] == ["ann@example.org", "eve@example.org"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("a@b.c", "x\r\nBcc: all@b.c", "", "1"), "line break in its subject"),
        (("a@b.c\nBcc: d@e.f", "x", "", "1"), "line break in its to"),
        (("a@b.c", "x", "", "1\n2"), "line break in its id"),
        (
            ("a@b.c", "=?utf-8?b?eA0KQmNjOiBhQGIuYw==?=", "", "1"),
            "encoded word (=?...?=) in its subject",
        ),
        (("a@b.c", "x", "", "=?rot13?Q?=0D=0A?="), "encoded word (=?...?=) in its id"),
        (("=?utf-8?q?d=40e.f=2Ca?=@b.c", "x", "", "1"), "encoded word (=?...?=) in its to"),
        (("a@.", "x", "", "1"), "one plain address"),
        (("a@b.c, d@e.f", "x", "", "1"), "one plain address"),
        (("Ann <a@b.c>", "x", "", "1"), "one plain address"),
        (("ann", "x", "", "1"), "one plain address"),
        (("a@b.c", None, "", "1"), "no subject"),
    ],
)
def test_a_row_that_would_change_the_headers_is_refused_before_anything_is_sent(
    writer, postman, row, reason
):
    outcome = writer.write([_effect(_row("ann"), row)])[0]
    assert outcome.error.code == "SinkRefused"
    assert "row 1" in outcome.error.message
    assert reason in outcome.error.message
    assert postman.mails == []


def test_one_connection_serves_all_effects_and_writes(writer, postman):
    writer.write([_effect(_row("ann")), _effect(_row("bob"))])
    writer.write([_effect(_row("eve"))])
    assert len(postman.mails) == 3
    assert len(postman.sessions) == 1


def test_a_mail_in_doubt_is_sent_again_under_the_same_message_id(writer, postman):
    postman.break_off_after_taking = 1
    outcomes = writer.write([_effect(_row("ann"))])
    assert outcomes[0].error is None
    first, second = postman.mails
    assert first["Message-ID"] == second["Message-ID"]


def test_a_mail_in_doubt_that_may_not_come_twice_is_lost_and_told(writer, postman):
    postman.break_off_after_taking = 1
    rows = _row("ann"), _row("bob", "0-2")
    outcomes = writer.write([_effect(*rows, may_repeat=False), _effect(_row("eve", "0-3"))])
    assert [mail["To"] for mail in postman.mails] == ["ann@example.org", "eve@example.org"]
    assert outcomes[0].error.temporary
    assert "the mail of row 0 is in doubt" in outcomes[0].error.message
    assert outcomes[1].error is None


def test_a_server_that_was_gone_before_it_had_the_mail_is_asked_again(writer, server, postman):
    writer.write([_effect(_row("ann"), may_repeat=False)])
    writer._smtp.sock.shutdown(socket.SHUT_RDWR)
    writer._drop_if_dead = lambda: None
    assert writer.write([_effect(_row("bob", "0-2"), may_repeat=False)])[0].error is None
    assert [mail["To"] for mail in postman.mails] == ["ann@example.org", "bob@example.org"]


def test_a_slow_server_gets_each_mail_once(server, postman, monkeypatch):
    monkeypatch.setattr(smtp_server, "_TIMEOUT_S", 1.0)
    postman.thinks_s = 2.0
    writer = Email("news@example.org").open(_site(f"smtp://127.0.0.1:{server.port}"))
    assert writer.write([_effect(_row("ann"))])[0].error is None
    assert len(postman.mails) == 1
    postman.thinks_s = 0.0
    writer.close()


def test_a_server_that_never_answers_to_a_mail_is_asked_for_nothing_more(
    server, postman, monkeypatch
):
    monkeypatch.setattr(smtp_server, "_TAKEN_S", 0.2)
    postman.thinks_s = 60.0
    writer = Email("news@example.org").open(_site(f"smtp://127.0.0.1:{server.port}"))
    outcomes = writer.write([_effect(_row("ann")), _effect(_row("bob", "0-2"))])
    assert [mail["To"] for mail in postman.mails] == ["ann@example.org"]
    assert [outcome.error.temporary for outcome in outcomes] == [True, True]
    assert "in doubt" in outcomes[0].error.message
    assert "does not answer" in outcomes[1].error.message


def test_lines_that_begin_with_a_dot_arrive_as_they_were(writer, postman):
    body = "one\n.\n..two\n.three\nfour"
    writer.write([_effect(("ann@example.org", "dots", body, "0-1"))])
    assert postman.mails[0].get_content().splitlines() == body.splitlines()


def test_a_server_that_breaks_off_twice_is_left_alone_until_the_next_try(writer, postman):
    postman.break_off_after_taking = 2
    outcomes = writer.write([_effect(_row("ann")), _effect(_row("bob", "0-2"))])
    assert outcomes[0].error.temporary
    assert outcomes[1].error is None


def test_a_server_that_is_away_is_temporary_for_all_and_asked_once(server, postman, monkeypatch):
    writer = Email("news@example.org").open(_site(f"smtp://127.0.0.1:{server.port}"))
    server.stop()
    asked = []
    monkeypatch.setattr(email_sink, "connect", lambda at: asked.append(at) or connect(at))
    outcomes = writer.write([_effect(_row("ann")), _effect(_row("bob"))])
    assert [(e.error.temporary, e.error.code) for e in outcomes] == [(True, "SinkUnavailable")] * 2
    assert len(asked) == 1


def test_a_writer_connects_again_after_the_server_was_away(postman, server):
    writer = Email("news@example.org").open(_site(f"smtp://127.0.0.1:{server.port}"))
    writer.write([_effect(_row("ann"))])
    server.stop()
    assert writer.write([_effect(_row("bob", "0-2"))])[0].error.temporary
    again = Controller(postman, hostname="127.0.0.1", port=server.port)
    again.start()
    assert writer.write([_effect(_row("bob", "0-2"))])[0].error is None
    writer.close()
    again.stop()


def test_starttls_that_is_insisted_on_and_not_offered_is_a_wrong_config(server, postman):
    writer = Email("a@example.org").open(_site(f"smtp+starttls://127.0.0.1:{server.port}"))
    error = writer.write([_effect(_row("ann"))])[0].error
    assert error.code == ConfigError.__name__
    assert "STARTTLS" in error.message
    assert postman.mails == []


@pytest.mark.parametrize("scheme", ["smtp", "smtp+starttls"])
def test_a_certificate_that_nobody_vouches_for_is_told_and_no_mail_goes(postman, tmp_path, scheme):
    files = tls_files(trustme.CA(), tmp_path, "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate_file, files.key_file)
    controller = AnyPort(postman, hostname="127.0.0.1", port=0, tls_context=context)
    controller.start()
    writer = Email("a@example.org").open(_site(f"{scheme}://127.0.0.1:{controller.port}"))
    error = writer.write([_effect(_row("ann"))])[0].error
    controller.stop()
    assert error.code == ConfigError.__name__
    assert "its certificate is not trusted" in error.message
    assert postman.mails == []


def test_a_wrong_password_is_permanent_and_not_shown(postman):
    controller = AnyPort(
        postman,
        hostname="127.0.0.1",
        port=0,
        auth_require_tls=False,
        authenticator=lambda *_: AuthResult(success=False, handled=False),
    )
    controller.start()
    writer = Email("a@example.org").open(_site(f"smtp://u:s3cret@127.0.0.1:{controller.port}"))
    error = writer.write([_effect(_row("ann"))])[0].error
    controller.stop()
    assert (error.temporary, error.code) == (False, "ConfigError")
    assert "s3cret" not in error.message
