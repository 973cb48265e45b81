"""An address is read once, and its password shows nowhere."""

from __future__ import annotations

import smtplib

import pytest

from headrace.connectors.email.server import answer_of, parse_smtp_url
from headrace.errors import ConfigError

_SECRET = "s3cret/@:"
_URL = "smtp+starttls://jane%40acme.org:s3cret%2F%40%3A@mail.acme.org"


def test_user_and_password_are_decoded_and_the_port_is_the_usual_one():
    server = parse_smtp_url(_URL)
    assert (server.user, server.password) == ("jane@acme.org", _SECRET)
    assert (server.scheme, server.host, server.port) == ("smtp+starttls", "mail.acme.org", 587)


@pytest.mark.parametrize(("url", "port"), [("smtp://h", 25), ("smtps://h", 465), ("smtp://h:9", 9)])
def test_a_port_that_is_not_said_is_the_schemes(url, port):
    assert parse_smtp_url(url).port == port


def test_no_password_shows():
    server = parse_smtp_url(_URL)
    assert _SECRET not in repr(server) + str(server)
    assert "jane" not in repr(server) + str(server)


@pytest.mark.parametrize(
    "url", [None, "", "mail:25", "http://h", "smtp://", "smtp://s3cret@h", "smtp://u:s3cret@h:x"]
)
def test_a_wrong_address_is_refused_without_repeating_it(url):
    with pytest.raises(ConfigError) as caught:
        parse_smtp_url(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (smtplib.SMTPDataError(554, b"no \xff"), (554, "no \ufffd")),
        (smtplib.SMTPRecipientsRefused({"a@b": (550, b"unknown")}), (550, "unknown")),
        (smtplib.SMTPSenderRefused(451, b"later", "a@b"), (451, "later")),
        (smtplib.SMTPNotSupportedError("no SMTPUTF8"), (0, "no SMTPUTF8")),
    ],
)
def test_every_kind_of_refusal_has_a_code_and_a_text(error, answer):
    assert answer_of(error) == answer
