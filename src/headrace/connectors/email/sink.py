"""Mails by SMTP. Guarantee: at-least-once; repeats have the same Message-ID.

A mail cannot be taken back and a mail server keeps no positions. When a connection breaks after the
last byte and before the answer, nobody can know whether the mail was taken; this sink then sends
it again. So every mail has a Message-ID made of use case, tenant and the row's ``id``: the same
mail sent again is the same mail for every server and reader that drops repeats, and many do. Who
must never send twice chooses at-most-once: the position moves first, and a mail in doubt is lost.

A server that is merely slow must not get each mail again and again: it has minutes to answer to one
(``server.py``). When these are over it is asked for nothing more in that call.

Columns, all text and none null: ``to`` (one address), ``subject``, ``body`` (plain text), and
``id``, unique for each mail within tenant and use case, made from the record: what the mail is
about, or topic, partition, offset and timestamp, as topics of a list, and one that is made again,
have the same offsets. A random one would undo all of the above.

The address is ``connections.smtp_url``:

* ``smtp://host:port`` uses STARTTLS when the server offers it;
* ``smtp+starttls://`` insists on it;
* ``smtps://`` is TLS from the first byte.

Certificates are always checked. User and password go in the URL, percent-encoded, and are sent
over TLS only, except to this very machine. A row is refused for a line break in an address or
subject, before any mail of its effect is sent; what the server refuses is found out mail by mail,
so mails before it have gone. Attachments, HTML and several receivers are not done here.
"""

from __future__ import annotations

import hashlib
import re
import smtplib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import ClassVar

import pyarrow as pa

from headrace.connectors.columns import check_columns
from headrace.connectors.email.server import (
    InDoubt,
    SmtpServer,
    answer_of,
    connect,
    parse_smtp_url,
    was_silent,
)
from headrace.connectors.outcomes import failed
from headrace.errors import ConfigError, HeadraceError, SinkRefused, SinkUnavailable, TargetMissing
from headrace.model.streams import LaneId, original
from headrace.ports import Effect, Site, Written

#: header with the readable text that the Message-ID is the digest of
ID_HEADER = "X-Headrace-Id"
_COLUMNS = {"to": "text", "subject": "text", "body": "text", "id": "text"}
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@(?!\.)[^\s@<>,;:\"()\[\]\\]+")
#: headers in one line: folding would encode a long Message-ID, and readers compare it as text
_POLICY = SMTP.clone(max_line_length=998)
#: RFC 2047: a header reads it as what is encoded, be that further headers
_ENCODED = re.compile(r"=\?[^?]*\?[bBqQ]\?")
#: to MAIL FROM: too large (RFC 1870), or with a parameter that the server does not take
_OF_THE_MAIL = (552, 555)
#: who asks is to say who he is, or is not believed (RFC 4954)
_NOT_LET_IN = (530, 534, 535, 538)
_LINE_BREAKS = re.compile(r"[\r\n\x00\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Email:
    """Mails from one sender.

    Args:
        sender: the address they come from.

    Raises:
        ConfigError: the sender is no plain address.
    """

    keeps_newest: ClassVar[bool] = False

    sender: str

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.sender):
            raise ConfigError(f"sender {self.sender!r} is no address such as 'news@example.org'")

    @property
    def exactly_once(self) -> None:
        """It cannot; nothing that sends mail can."""
        return

    def prepare(self, site: Site) -> None:
        """See that the address of the server can be read; contacts nobody.

        Raises:
            ConfigError: it is missing or wrong.
        """
        parse_smtp_url(site.connections.smtp_url)

    def check(self, output: pa.Table) -> None:
        """See that every row of a handler's table can be a mail.

        Raises:
            WrongSchema: the message names the column.
            SinkRefused: a row lacks something, or has a line break where none may be.
        """
        check_columns(output.schema, _COLUMNS, "e-mail")
        for row, fields in enumerate(output.select(list(_COLUMNS)).to_pylist()):
            _check_row(row, fields)

    def open(self, site: Site) -> EmailWriter:
        """Open the writer of a bin; the first write connects.

        Raises:
            ConfigError: the address of the server is missing or wrong.
        """
        return EmailWriter(self.sender, parse_smtp_url(site.connections.smtp_url))


class EmailWriter:
    """Sends mails over one connection, kept from write to write while it lives."""

    def __init__(self, sender: str, server: SmtpServer) -> None:
        self._sender = sender
        self._server = server
        self._smtp: smtplib.SMTP | None = None
        #: mails already taken, of effects that failed further on and will come again in parts
        self._taken: set[str] = set()
        #: why nothing more is asked of the server in this call of write
        self._down: HeadraceError | None = None

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Send the mails of all effects that can be sent; see ``SinkWriter.write``."""
        outcomes: list[Written] = []
        self._down = None
        self._drop_if_dead()
        for effect in effects:
            try:
                self._send_all(_mails(effect, self._sender), effect.may_repeat)
            except Exception as error:  # the library's parsers give up in many ways
                outcomes.append(failed(error, "e-mail"))
            else:
                outcomes.append(Written())
        return outcomes

    def close(self) -> None:
        """Say goodbye to the server."""
        if self._smtp is not None:
            with suppress(smtplib.SMTPException, OSError):
                self._smtp.quit()
        self._forget()

    def _send_all(self, mails: Sequence[EmailMessage], may_repeat: bool) -> None:
        taken: list[str] = []
        try:
            for row, mail in enumerate(mails):
                name = _fingerprint(mail)
                if name not in self._taken:
                    self._send(mail, row, may_repeat)
                taken.append(name)
        except Exception:
            self._taken.update(taken)
            raise
        self._taken.difference_update(taken)

    def _send(self, mail: EmailMessage, row: int, may_repeat: bool) -> None:
        in_doubt = False
        for chance_left in (True, False):
            smtp = self._connected()
            lost: Exception
            try:
                smtp.send_message(mail, self._sender, [str(mail["To"])])
            except InDoubt as error:
                lost, in_doubt = error, True
            except smtplib.SMTPServerDisconnected as error:
                lost = error
            except smtplib.SMTPException as error:
                raise _answered(error, self._server, row) from error
            except OSError as error:
                lost = error
            except Exception:
                # Nobody knows what the server was told of it: the next mail has a new connection.
                self._forget()
                raise
            else:
                return
            self._forget()
            silent = was_silent(lost)
            if silent:
                self._down = SinkUnavailable(f"{self._server}: it does not answer: {lost}")
            if silent or not chance_left or (in_doubt and not may_repeat):
                state = "is in doubt, it may have been taken" if in_doubt else "was not taken"
                raise SinkUnavailable(
                    f"{self._server}: the mail of row {row} {state}: {lost}"
                ) from lost

    def _connected(self) -> smtplib.SMTP:
        if self._down is not None:
            # Waiting for a dead server once for each tenant would take the time of all.
            raise self._down
        if self._smtp is None:
            try:
                self._smtp = connect(self._server)
            except HeadraceError as error:
                self._down = error
                raise
        return self._smtp

    def _drop_if_dead(self) -> None:
        if self._smtp is None:
            return
        try:
            alive = self._smtp.noop()[0] == 250
        except (smtplib.SMTPException, OSError):
            alive = False
        if not alive:
            self._forget()

    def _forget(self) -> None:
        if self._smtp is not None:
            self._smtp.close()
            self._smtp = None


def _mails(effect: Effect, sender: str) -> list[EmailMessage]:
    if effect.output.num_columns == effect.output.num_rows == 0:
        return []
    check_columns(effect.output.schema, _COLUMNS, "e-mail")
    try:
        rows = effect.output.select(list(_COLUMNS)).to_pylist()
    except ValueError as error:
        raise SinkRefused(f"e-mail: a row is no valid text: {error}") from error
    lane = effect.slices[0].lane
    made = []
    for row, fields in enumerate(rows):
        _check_row(row, fields)
        try:
            made.append(_mail(fields, sender, lane))
        except (ValueError, LookupError) as error:
            # The standard library's parser of addresses gives up in several ways.
            raise SinkRefused(f"e-mail: no mail can be made of row {row}: {error}") from error
    return made


def _mail(fields: dict[str, str], sender: str, lane: LaneId) -> EmailMessage:
    name = (original(lane.use_case), lane.tenant, fields["id"])
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = sender
    mail["To"] = fields["to"]
    mail["Subject"] = fields["subject"]
    mail["Date"] = formatdate()
    mail["Message-ID"] = f"<{hashlib.sha256(chr(0).join(name).encode()).hexdigest()}@headrace>"
    mail[ID_HEADER] = "/".join(name)
    mail.set_content(fields["body"])
    return mail


def _check_row(row: int, fields: dict[str, str | None]) -> None:
    for name, text in fields.items():
        if text is None:
            raise SinkRefused(f"e-mail: row {row} has no {name}")
        if name != "body" and _LINE_BREAKS.search(text):
            raise SinkRefused(f"e-mail: row {row} has a line break in its {name}")
        if name != "body" and _ENCODED.search(text):
            raise SinkRefused(
                f"e-mail: row {row} has an encoded word (=?...?=) in its {name}, which may hold a "
                "line break: write it as text"
            )
    if not _ADDRESS.fullmatch(fields["to"] or ""):
        raise SinkRefused(f"e-mail: row {row} does not have one plain address in its to")


def _fingerprint(mail: EmailMessage) -> str:
    parts = (mail["Message-ID"], mail["To"], mail["Subject"], mail.get_content())
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _answered(error: smtplib.SMTPException, server: SmtpServer, row: int) -> HeadraceError:
    code, text = answer_of(error)
    if _is_of_us(error, code):
        return TargetMissing(f"{server}: it takes no mail of ours: {code} {text}")
    message = f"{server}: the mail of row {row} was not taken: {code or ''} {text}"
    # 4xx: not now. 5xx, and what this server cannot do at all: never.
    return SinkUnavailable(message) if 400 <= code < 500 else SinkRefused(message)


def _is_of_us(error: smtplib.SMTPException, code: int) -> bool:
    """Whether the server refuses the sender, which is the same for all mails, or its password."""
    of_sender = isinstance(error, smtplib.SMTPSenderRefused) and code not in _OF_THE_MAIL
    return code >= 500 and (of_sender or code in _NOT_LET_IN)
