"""The laws of a sink, on mails taken by a real SMTP server."""

from __future__ import annotations

import smtplib
from collections.abc import Mapping
from contextlib import contextmanager
from typing import ClassVar
from unittest import mock

import pyarrow as pa
import pytest
from aiosmtpd.controller import Controller

from headrace.ports import Connections, Sink, Site
from headrace.process.crash_points import PlayedKill
from headrace.sinks import Email
from headrace.testing.sink_contract import Seen, SinkContract


class Mailbox:
    """Keeps what it is sent."""

    def __init__(self):
        self.mails = []
        self.loses_an_answer = self.is_busy = False

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd's name
        if self.is_busy:
            return "451 later"
        self.mails.append(envelope)
        if self.loses_an_answer:
            self.loses_an_answer = False
            server.transport.close()
        return "250 OK"

    @contextmanager
    def losing_an_answer(self):
        self.loses_an_answer = True
        yield
        assert not self.loses_an_answer, "nothing was sent"

    @contextmanager
    def being_busy(self):
        self.is_busy = True
        yield
        self.is_busy = False


class AnyPort(Controller):
    """Takes a port that is free and tells which."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


class TestEmail(SinkContract):
    wrong_column = "to"
    cannot_have: ClassVar[Mapping[str, str]] = {
        "replay after the target forgot": "a mail server knows of no mail that it took"
    }

    @pytest.fixture(autouse=True)
    def _server(self):
        self.mailbox = Mailbox()
        controller = AnyPort(self.mailbox, hostname="127.0.0.1", port=0)
        controller.start()
        self.port = controller.port
        yield
        controller.stop()

    def make_sink(self) -> Sink:
        return Email(sender="news@example.org")

    def site(self) -> Site:
        url = f"smtp://127.0.0.1:{self.port}"
        return Site(Connections({}, "sqlite:///unused.db", smtp_url=url), positions=None)

    def table(self, values):
        columns = {"to": [f"{n}@example.org" for n, _ in enumerate(values)]}
        columns |= {name: list(values) for name in ("subject", "body", "id")}
        return pa.table(columns, schema=pa.schema([(name, pa.string()) for name in columns]))

    def refused_table(self):
        return self.table(["subject\nBcc: all@example.org"])

    def wrong_table(self):
        return self.table(["a"]).drop_columns(["to"])

    def losing_an_answer(self):
        return self.mailbox.losing_an_answer()

    def refusing_for_now(self):
        return self.mailbox.being_busy()

    @contextmanager
    def dying_in_a_write(self):
        send, sent = smtplib.SMTP.send_message, []

        def until_killed(*args, **kwargs):
            if sent:
                raise PlayedKill
            sent.append(True)
            return send(*args, **kwargs)

        with mock.patch.object(smtplib.SMTP, "send_message", until_killed):
            yield

    def read_back(self):
        lines = [mail.content.decode().splitlines() for mail in self.mailbox.mails]
        return [
            Seen(
                next(line for line in mail if line.startswith("Message-ID:")),
                next(line for line in mail if line.startswith("Subject:"))[len("Subject: ") :],
            )
            for mail in lines
        ]
