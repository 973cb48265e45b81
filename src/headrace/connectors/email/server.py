"""Where the mail server is, and how to get a connection that may carry a password.

The address holds a password and says how much encryption is wanted; both are easily got wrong in
ways that work. So it is read once, shows no password, and a password is never sent in the clear
to another machine.

A server that was given a mail may take minutes over it (content filters, greylisting), and RFC 5321
(4.5.3.2.6) has a client wait ten for the answer. Whoever hangs up sooner leaves a mail in doubt: it
was taken, most likely, and would be taken again each time it is sent. So everything before the
mail's last byte is waited for seconds, and what is said to it for those minutes.

Mails are made elsewhere (``sink.py``), where it is also decided what becomes of one in doubt.
"""

from __future__ import annotations

import re
import smtplib
import ssl
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from headrace.errors import ConfigError, HeadraceError, SinkUnavailable

#: other tenants' effects of the bin wait as long
_TIMEOUT_S = 10.0
#: for the answer to a whole mail
_TAKEN_S = 600.0
_DATA_FOLLOWS = 354
_PORTS = {"smtp": 25, "smtp+starttls": 587, "smtps": 465}
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}
_EXAMPLE = "smtp+starttls://user:password@mail.example.org:587"


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """A mail server as its URL names it."""

    scheme: Literal["smtp", "smtp+starttls", "smtps"]
    host: str
    port: int
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}:{self.port}"


class InDoubt(Exception):
    """A mail was given to the server as a whole, and what it says to it never came."""


class _Patient(smtplib.SMTP):
    """Tells a mail in doubt from one that the server never had, and waits for its answer."""

    def data(self, msg: Any) -> tuple[int, bytes]:
        """Give the server the mail itself; returns what it says to it.

        Raises:
            InDoubt: nothing that can be understood.
        """
        code, text = self.docmd("DATA")
        if code != _DATA_FOLLOWS:
            raise smtplib.SMTPDataError(code, text)
        self.send(_on_the_wire(msg))
        assert self.sock is not None, "it was just sent to"
        self.sock.settimeout(_TAKEN_S)
        try:
            code, text = self.getreply()
        except (smtplib.SMTPException, OSError) as error:
            raise InDoubt(str(error)) from error
        if code < 0:
            raise InDoubt(f"an answer without a code: {text!r}")
        self.sock.settimeout(self.timeout)
        return code, text


class _PatientSsl(_Patient, smtplib.SMTP_SSL):
    """The same with TLS from the first byte."""


def parse_smtp_url(url: str | None) -> SmtpServer:
    """Read ``smtp://``, ``smtp+starttls://`` or ``smtps://`` with user and password, if any.

    Raises:
        ConfigError: it is missing or wrong; the message does not repeat it.
    """
    if url is None:
        raise ConfigError(f"e-mail needs the address of a mail server: set it, as in {_EXAMPLE}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        # The cause would quote the URL, password and all.
        raise ConfigError(f"the mail server's URL cannot be read; write it as {_EXAMPLE}") from None
    if parts.scheme not in _PORTS or not host:
        raise ConfigError(f"the mail server's URL must be one of {', '.join(_PORTS)}: {_EXAMPLE}")
    if (parts.username is None) != (parts.password is None):
        raise ConfigError(f"the mail server's URL needs both user and password, as in {_EXAMPLE}")
    return SmtpServer(
        scheme=parts.scheme,  # type: ignore[arg-type]  # it is one of _PORTS
        host=host,
        port=port or _PORTS[parts.scheme],
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
    )


def connect(server: SmtpServer) -> smtplib.SMTP:
    """Connect, encrypt as asked, and log in.

    Raises:
        SinkUnavailable: the server does not answer, or not now.
        ConfigError: it offers less than is asked for, its certificate or the password is wrong.
    """
    smtp: smtplib.SMTP | None = None
    try:
        smtp = _opened(server)
        _encrypt_and_log_in(smtp, server)
    except (smtplib.SMTPException, OSError) as error:
        if smtp is not None:
            smtp.close()
        raise _translated(error, server) from error
    except ConfigError:
        if smtp is not None:
            smtp.close()
        raise
    return smtp


def answer_of(error: smtplib.SMTPException) -> tuple[int, str]:
    """The code and text of what the server answered; 0 if the client gave up by itself."""
    text: bytes | str
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, text = next(iter(error.recipients.values()))
    elif isinstance(error, smtplib.SMTPResponseException):
        code, text = error.smtp_code, error.smtp_error
    else:
        code, text = 0, str(error)
    return code, text.decode("utf-8", "replace") if isinstance(text, bytes) else text


def was_silent(error: BaseException | None) -> bool:
    """Whether a time limit was behind an error: who asks again will wait as long."""
    while error is not None:
        if isinstance(error, TimeoutError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _opened(server: SmtpServer) -> smtplib.SMTP:
    if server.scheme == "smtps":
        context = ssl.create_default_context()
        return _PatientSsl(server.host, server.port, timeout=_TIMEOUT_S, context=context)
    return _Patient(server.host, server.port, timeout=_TIMEOUT_S)


def _on_the_wire(mail: bytes | str) -> bytes:
    """Lines that begin with a dot have another before it, and a dot alone is the end."""
    lines = re.sub(rb"(?m)^\.", b"..", mail.encode("ascii") if isinstance(mail, str) else mail)
    return lines + (b".\r\n" if lines.endswith(b"\r\n") else b"\r\n.\r\n")


def _encrypt_and_log_in(smtp: smtplib.SMTP, server: SmtpServer) -> None:
    smtp.ehlo_or_helo_if_needed()
    encrypted = server.scheme == "smtps"
    if not encrypted and smtp.has_extn("starttls"):
        smtp.starttls(context=ssl.create_default_context())
        smtp.ehlo()
        encrypted = True
    if server.scheme == "smtp+starttls" and not encrypted:
        raise ConfigError(f"{server}: the server does not offer STARTTLS")
    if server.user is None or server.password is None:
        return
    if not encrypted and server.host not in _THIS_MACHINE:
        raise ConfigError(
            f"{server}: the server does not offer STARTTLS, and a password is not sent in the "
            "clear; use smtps:// or a server that offers it"
        )
    smtp.login(server.user, server.password)


def _translated(error: Exception, server: SmtpServer) -> HeadraceError:
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConfigError(f"{server}: its certificate is not trusted: {error.verify_message}")
    if isinstance(error, smtplib.SMTPNotSupportedError):
        return ConfigError(f"{server}: it cannot do what is asked: {error}")
    if isinstance(error, smtplib.SMTPResponseException):
        code, text = answer_of(error)
        if code >= 500:
            return ConfigError(f"{server}: {code} {text}")
        return SinkUnavailable(f"{server}: {code} {text}")
    return SinkUnavailable(f"{server}: it does not answer: {error}")
