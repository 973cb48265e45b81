"""The mail server keeps what it took."""

import smtplib
from email.message import EmailMessage
from pathlib import Path

import pytest

from headrace.embedded import EmbeddedSmtp
from headrace.embedded.smtp import kept_files
from headrace.errors import ServerError


def send(server, subject, to="you@example.com"):
    message = EmailMessage()
    message["Subject"] = subject
    message["From"] = "me@example.com"
    message["To"] = to
    message["Message-ID"] = "<the-same@example.com>"
    message.set_content("Grüße\n.\nafter the dot\n")
    host, port = server.url.removeprefix("smtp://").split(":")
    with smtplib.SMTP(host, int(port)) as client:
        client.send_message(message)


def subjects(server):
    return [message["Subject"] for message in server.messages()]


def test_a_message_is_read_back_as_it_was_sent(tmp_path):
    with EmbeddedSmtp(tmp_path) as server:
        send(server, "hello", to="you@example.com")
        (kept,) = server.messages()
    assert kept["Subject"] == "hello"
    assert kept["X-Envelope-To"] == "you@example.com"
    assert kept.get_content().replace("\r\n", "\n") == "Grüße\n.\nafter the dot\n"


def test_messages_come_in_order_and_one_sent_twice_is_seen_twice(tmp_path):
    with EmbeddedSmtp(tmp_path) as server:
        for subject in ("b", "a", "a"):
            send(server, subject)
        assert subjects(server) == ["b", "a", "a"]


def test_mail_is_kept_over_a_restart(tmp_path):
    server = EmbeddedSmtp(tmp_path)
    for subject in ("first", "second"):
        with server:
            send(server, subject)
    assert subjects(server) == ["first", "second"]


def test_a_message_that_cannot_be_kept_is_refused_for_now(tmp_path, monkeypatch):
    def full(_self, _target):
        raise OSError(28, "No space left on device")

    with EmbeddedSmtp(tmp_path) as server:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", full)
            with pytest.raises(smtplib.SMTPDataError, match="452"):
                send(server, "lost")
        send(server, "kept")
        assert subjects(server) == ["kept"]


def test_what_a_killed_server_half_wrote_is_not_a_message(tmp_path):
    (tmp_path / "000000000001.part").write_bytes(b"Subject: half")
    with EmbeddedSmtp(tmp_path) as server:
        assert kept_files(tmp_path) == []
        send(server, "whole")
        assert subjects(server) == ["whole"]


def test_a_client_still_connected_does_not_hold_up_the_end(tmp_path):
    with EmbeddedSmtp(tmp_path) as server:
        client = smtplib.SMTP("127.0.0.1", server.port)
    with client, pytest.raises(smtplib.SMTPServerDisconnected):
        client.noop()


def test_two_servers_cannot_share_a_folder(tmp_path):
    with EmbeddedSmtp(tmp_path), pytest.raises(ServerError, match="in use"):
        EmbeddedSmtp(tmp_path).start()


def test_two_servers_cannot_share_a_port(tmp_path):
    with EmbeddedSmtp(tmp_path / "one") as one:
        two = EmbeddedSmtp(tmp_path / "two", port=one.port)
        with pytest.raises(ServerError, match=f"mail server cannot listen on.*{one.port}"):
            two.start()
