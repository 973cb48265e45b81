"""Where the mail server is, and how to get a connection that may carry a password.

The address holds a password and says how much encryption is wanted; both are easily got wrong in
ways that work. So it is read once, shows no password, and a password is never sent in the clear
to another machine. Mails are made and sent elsewhere (``email.py``).
"""

from __future__ import annotations

import smtplib
import ssl
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote, urlsplit

from headrace.errors import ConfigError, HeadraceError, SinkUnavailable

#: other tenants' effects of the bin wait as long
_TIMEOUT_S = 10.0
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


def _opened(server: SmtpServer) -> smtplib.SMTP:
    if server.scheme == "smtps":
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(server.host, server.port, timeout=_TIMEOUT_S, context=context)
    return smtplib.SMTP(server.host, server.port, timeout=_TIMEOUT_S)


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
