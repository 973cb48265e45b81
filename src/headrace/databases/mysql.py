"""MariaDB and MySQL, opened so that nothing is cut, merged or waited for without an end in silence.

How strict they are is a setting of each session, and theirs of old is to help out: a text that is
too long is cut, a number that is too large becomes the largest, ``"name"`` is a text and ``||`` is
"or". So each session says how it wants it. What is strict then still cuts blanks at the end of a
text, and tells so in a note; such a note is an error here.

A packet that is larger than the server takes costs the connection, and who sends it learns nothing.
So none is sent: rows are packed into statements that fit, and one row that does not fit is an error
of the client.

A session that sleeps in a transaction is ended by the server, as one that sleeps outside of it is,
which the pool finds out. Repeatable reads lock the gaps between rows, where those who write to
different lanes would lock each other out; so what is read is what is committed.

This module needs PyMySQL.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection as Client
from pymysql.cursors import Cursor
from pymysql.err import DataError, OperationalError
from sqlalchemy import Connection, Engine, create_engine, event

from headrace.databases.addresses import Address
from headrace.databases.deadline import IN_TIME, Deadline
from headrace.databases.sockets import SocketInTime

#: codes of errors after which nothing of the session can be counted on: it is shut down, or was
#: interrupted, maybe in a commit
ENDING = frozenset({1053, 1180, 1317})
#: a packet is too large
TOO_LARGE = 1153
#: the server is not reached
NOT_LET_IN = 2003
#: something of a value was cut
CUT = 1265
#: a server that is there says so at once; one that does not is connected to anew
_PING_S = 2.0
#: larger statements are no faster
_STATEMENT_BYTES = 1_000_000
#: what a packet holds beside the statement
_PACKET_HEAD_BYTES = 16
_STRICT = (
    "STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,"
    "NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO,ANSI_QUOTES,PIPES_AS_CONCAT"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is waited for whom."""

    connect_s: float
    lock_s: float
    #: one statement; MySQL ends none that writes
    statement_s: float
    #: the server says nothing
    silence_s: float
    #: the client says nothing
    idle_s: float


class WholeCursor(Cursor):  # type: ignore[misc] # it is not typed
    """PyMySQL's cursor, for values that arrive whole or not at all."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        #: the largest statement that the server takes
        self._most_bytes = getattr(connection, "packet_bytes", 0) - _PACKET_HEAD_BYTES
        self.max_stmt_length = min(_STATEMENT_BYTES, self._most_bytes)

    def execute(self, query: Any, args: Any = None) -> Any:
        """Run a statement.

        Raises:
            DataError: it is larger than the server takes, and was not sent; or a value was cut.
        """
        said = query if args is None else self.mogrify(query, args)
        if isinstance(said, str):
            said = said.encode(self.connection.encoding, "surrogateescape")
        if len(said) > self._most_bytes > 0:
            raise DataError(
                TOO_LARGE,
                f"a row takes {len(said)} bytes, and max_allowed_packet of the server is "
                f"{self._most_bytes + _PACKET_HEAD_BYTES}",
            )
        count = super().execute(said)
        if self.warning_count and self.description is None:
            self._refuse_cut()
        return count

    def _refuse_cut(self) -> None:
        for _level, code, text in self.connection.show_warnings():
            if code == CUT:
                raise DataError(code, text)


class ClientInTime(Client):  # type: ignore[misc] # it is not typed
    """PyMySQL's connection, all of whose waits are over when the time of its thread is.

    From the first byte on: a server may greet byte by byte.
    """

    def __init__(self, deadline: Deadline, *args: Any, **options: Any) -> None:
        """Connect, and take what ends its waits."""
        self._deadline = deadline
        super().__init__(*args, **options)

    @property
    def _sock(self) -> SocketInTime | None:
        return self.__dict__.get("_socket_in_time")

    @_sock.setter
    def _sock(self, connected: Any) -> None:
        self._socket_in_time = connected and SocketInTime(connected, self._deadline)

    @property
    def _rfile(self) -> Any:
        return self.__dict__.get("_reader_in_time")

    @_rfile.setter
    def _rfile(self, reader: Any) -> None:
        # What it was given reads past the socket of above.
        self._reader_in_time = reader and self._socket_in_time.makefile("rb")


def engine_of(address: Address, limits: Limits, deadline: Deadline) -> Engine:
    """A pool of connections; nothing is contacted before the first transaction."""
    engine = create_engine(
        address.url,
        connect_args={
            "charset": "utf8mb4",
            "connect_timeout": limits.connect_s,
            # Until it has let us in, which is a read as well.
            "read_timeout": limits.connect_s,
            "write_timeout": limits.silence_s,
            "cursorclass": WholeCursor,
            "program_name": "headrace",
        },
        isolation_level="READ COMMITTED",
        # A restarted server is met here, not in the middle of a commit.
        pool_pre_ping=True,
        hide_parameters=True,
    )

    _be_over(engine, limits, deadline)

    @event.listens_for(engine, "connect", insert=True)
    def settle(connection: Any, _record: Any) -> None:
        connection._read_timeout = deadline.left_s(limits.silence_s)
        with connection.cursor() as cursor:
            cursor.execute(_session(limits))
            cursor.execute("SELECT @@max_allowed_packet")
            connection.packet_bytes = cursor.fetchone()[0]
        connection.lock_s = limits.lock_s

    @event.listens_for(engine, "handle_error")
    def judge(context: Any) -> None:
        said = context.original_exception.args
        if said and said[0] in ENDING:
            context.is_disconnect = True

    return engine


def _be_over(engine: Engine, limits: Limits, deadline: Deadline) -> None:
    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, args: Any, options: Any) -> Any:
        until_s = min(deadline.until_s, time.monotonic() + limits.connect_s)

        def let_in() -> ClientInTime:
            # In a thread, which ends then as well.
            with deadline.until(until_s):
                return ClientInTime(deadline, *args, **options)

        try:
            with deadline.until(until_s):
                return deadline.connected(let_in)
        except TimeoutError:
            raise OperationalError(NOT_LET_IN, f"it did not let in {IN_TIME}") from None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        driver = connection.connection.driver_connection
        lock_s = max(1, int(deadline.servers_s(limits.lock_s)))
        if driver.lock_s != lock_s:  # type: ignore[union-attr] # `settle` gave it
            connection.exec_driver_sql(_locks(lock_s))
            driver.lock_s = lock_s  # type: ignore[union-attr]

    @event.listens_for(engine, "before_cursor_execute")
    def executes(connection: Connection, *_: Any) -> None:
        driver = connection.connection.driver_connection
        driver._read_timeout = deadline.left_s(limits.silence_s)  # type: ignore[union-attr]

    ping = engine.dialect.do_ping

    def ping_in_time(dbapi_connection: Any) -> bool:
        dbapi_connection._read_timeout = deadline.left_s(_PING_S)
        return ping(dbapi_connection)

    # There is no event of it.
    engine.dialect.do_ping = ping_in_time  # type: ignore[method-assign]


def _locks(seconds: float) -> str:
    waits = ("innodb_lock_wait_timeout", "lock_wait_timeout")
    return "SET SESSION " + ", ".join(f"{name} = {seconds:.0f}" for name in waits)


def _session(limits: Limits) -> str:
    # MariaDB alone reads what stands in the comment.
    return (
        f"SET SESSION sql_mode = '{_STRICT}', time_zone = '+00:00', sql_notes = 1, "
        f"max_error_count = 65535, innodb_lock_wait_timeout = {limits.lock_s:.0f}, "
        f"lock_wait_timeout = {limits.lock_s:.0f}, wait_timeout = {limits.idle_s:.0f} "
        f"/*M! , max_statement_time = {limits.statement_s:.0f} */"
    )
