"""One question to the registry and its answer, within a time that holds for all of it.

A registry that is half dead is worse than a dead one: it takes a connection and says nothing, or an
answer comes byte by byte, or a proxy before it answers with a page of HTML. Whoever asks is a task
that others wait for. So the time is one for looking up a name, connecting, asking and reading, at
all of its addresses together. No client has such a limit, so a thread asks, and is left behind.
Whatever is no answer of a registry is one error: it does not answer.

Somebody who asks for what he may not read, or what is far too large, must not silence the registry
for everybody. So two such errors are told apart: nobody answers, or it is this question alone that
a server has no answer to.

Decided by the status, since registries differ in what they say beside it. Only that something is
not there is told with a code that all of them have (404 and two digits more): a 404 without one is
of a proxy whose registry is being started, or of another address, and nothing is known by it.
Redirects are not followed, as they would carry a password elsewhere.
"""

from __future__ import annotations

import json
import logging
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.connectors.schema_registry.config import (
    INSTALL,
    URL,
    USER_INFO,
    RegistryConfig,
    RegistryServer,
)
from headrace.connectors.schema_registry.pauses import RegistryAwayError
from headrace.errors import RegistryUnavailable, SchemaUnanswered, plain, shortened, words_of
from headrace.process.daemon_threads import DaemonThreads

if TYPE_CHECKING:
    import httpx2

#: questions that nobody waits for any more, before no other is asked; one more thread looks up
_MOST_THREADS = 7
#: a schema, or what is said of one; more is none
MOST_BYTES = 16 * 1024 * 1024
#: what a registry decides of a schema that it is given, and of a question; all else is a registry
#: that is away, or not let in to: that a schema is broken or does not fit says nothing of an id
_DECIDED_OF_SCHEMA = frozenset({200, 404, 409, 422})
_DECIDED = frozenset({200, 404})
#: that something is not there, as registries say it
_NOT_THERE = range(40400, 40500)
#: what tells of who asks, of the server or of a proxy before it, whatever was asked for
_FOR_ALL = frozenset({401, 407, 429, 502, 503, 504})
_JSON = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{_JSON}, application/vnd.schemaregistry+json, application/json"
_MEND = {
    401: f"see {USER_INFO}, or whatever proves who asks",
    403: "give whoever asks the right to read its subjects",
    404: f"see that {URL} names a registry, and that it runs",
    407: "see the proxy that the environment names",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a registry decided."""

    status: int
    body: Mapping[str, Any]
    #: where it is a list
    rows: Sequence[Any] = ()

    @property
    def message(self) -> str:
        """What it says for people."""
        return _short(str(self.body.get("message", "")))


class Exchange:
    """Asks the servers of a registry, in turn. For one thread at a time."""

    def __init__(self, config: RegistryConfig, most_bytes: int = MOST_BYTES) -> None:
        """Take where they are, and how many bytes an answer may have."""
        self._config, self._most_bytes = config, most_bytes
        self._client: httpx2.Client | None = None
        self._threads = DaemonThreads(_MOST_THREADS, "registry")

    def ask(
        self,
        path: str,
        until_s: float,
        body: Mapping[str, Any] | None = None,
        *,
        is_list: bool = False,
    ) -> Answer:
        """What the first server says that decides anything.

        Args:
            path: below the registry's address.
            until_s: monotonic second at which it is given up.
            body: what to post; None: it is a look.
            is_list: a list is expected, and not an object.

        Raises:
            RegistryAwayError: nobody answers; the message has no credentials.
            SchemaUnanswered: what answers has no answer to this.
        """
        troubles: list[tuple[str, _NoAnswerError]] = []
        servers = self._config.servers
        for number, server in enumerate(servers):
            left_s = (until_s - time.monotonic()) / (len(servers) - number)
            if left_s <= 0:
                troubles.append((server.url, _NoAnswerError("no time was left to ask")))
                break
            try:
                status, content = self._asked(server, path, time.monotonic() + left_s, body)
                return _answer(status, content, is_list=is_list)
            except _NoAnswerError as error:
                troubles.append((server.url, error))
        raise _trouble(troubles)

    def _asked(
        self, server: RegistryServer, path: str, until_s: float, body: Mapping[str, Any] | None
    ) -> tuple[int, bytes]:
        asked = self._threads.submit(self._read, server, path, until_s, body)
        try:
            status, content = asked.result(max(until_s - time.monotonic(), 0))
        except _NoAnswerError:
            raise
        except TimeoutError as error:
            # What it left is with the thread that still waits.
            self._client = None
            raise _NoAnswerError("no answer within the time there is") from error
        except Exception as error:  # whatever the client, TLS or a broken file of keys raises
            raise _NoAnswerError(_short(words_of(error))) from error
        decided = _DECIDED if body is None else _DECIDED_OF_SCHEMA
        if status not in decided or (status == 404 and not _is_of_registry(content)):
            raise _refusal(status, content)
        return status, content

    def _read(
        self, server: RegistryServer, path: str, until_s: float, body: Mapping[str, Any] | None
    ) -> tuple[int, bytes]:
        client = self._opened()
        headers = {**server.headers, "Accept": _ACCEPT}
        if body is not None:
            headers["Content-Type"] = _JSON
        content = None if body is None else json.dumps(body).encode()
        left_s = max(until_s - time.monotonic(), 0.001)
        with client.stream(
            "GET" if body is None else "POST",
            f"{server.url}/{path}",
            headers=headers,
            content=content,
            timeout=left_s,
        ) as response:
            read = bytearray()
            for piece in response.iter_raw():
                read += piece
                if time.monotonic() > until_s:
                    raise _NoAnswerError("its answer comes too slowly")
                if len(read) > self._most_bytes:
                    told = f"its answer has more than {self._most_bytes} bytes"
                    raise _NoAnswerError(told, answers=True)
            return response.status_code, bytes(read)

    def _opened(self) -> httpx2.Client:
        if self._client is None:
            try:
                import httpx2  # noqa: PLC0415 - where no registry is asked it need not be there
            except ModuleNotFoundError as error:
                raise _NoAnswerError(
                    f"package {error.name} is not installed here, to ask it: {INSTALL}, wherever "
                    "executors run"
                ) from None
            # A line for each question would be taken for one of the handler's.
            client_log = logging.getLogger("httpx2")
            if client_log.level == logging.NOTSET:
                client_log.setLevel(logging.WARNING)
            # A connection that was kept may be half dead, and questions are few.
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._client = httpx2.Client(
                verify=_context(self._config),
                limits=limits,
                headers={"Accept-Encoding": "identity"},
            )
        return self._client


class _NoAnswerError(Exception):
    """One server did not answer, or not as a registry does."""

    def __init__(self, told: str, said: str = "", *, answers: bool = False) -> None:
        """Take what is the matter, what it said itself, and whether it answers other questions."""
        super().__init__(f"{told}{said}")
        self.told, self.answers = told, answers


def _answer(status: int, content: bytes, *, is_list: bool) -> Answer:
    told = _json(content)
    if status == 200 and not isinstance(told, list if is_list else dict):
        raise _NoAnswerError("its answer is no JSON", f": {_begin(content)}")
    return Answer(
        status, told if isinstance(told, dict) else {}, told if isinstance(told, list) else ()
    )


def _trouble(troubles: Sequence[tuple[str, _NoAnswerError]]) -> RegistryUnavailable:
    told = "; ".join(f"{url}: {error}" for url, error in troubles)
    if any(error.answers for _, error in troubles):
        return SchemaUnanswered(f"the schema registry has no answer to this: {told}")
    to_all = "; ".join(f"{url}: {error.told}" for url, error in troubles)
    away, mend = "the schema registry does not answer", f"see that it runs, and that {URL} names it"
    return RegistryAwayError(f"{away}: {told}; {mend}", f"{away}: {to_all}; {mend}")


def _context(config: RegistryConfig) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=config.ca)
    if config.certificate is not None:
        context.load_cert_chain(config.certificate, config.key, config.key_password)
    return context


def _refusal(status: int, content: bytes) -> _NoAnswerError:
    body = _json(content)
    is_told = isinstance(body, dict) and bool(body)
    said = _short(str(body.get("message", ""))) if is_told else _begin(content)
    mend = _MEND.get(status, "name where it redirects to" if 300 <= status < 400 else "")
    told = f"HTTP {status}{f', {mend}' if mend else ''}"
    return _NoAnswerError(told, f" ({said})" if said else "", answers=status not in _FOR_ALL)


def _is_of_registry(content: bytes) -> bool:
    """Whether it was a registry that said of something that it is not there."""
    body = _json(content)
    return isinstance(body, dict) and body.get("error_code") in _NOT_THERE


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _begin(content: bytes) -> str:
    return _short(content[:80].decode("utf-8", "replace"))


def _short(text: str) -> str:
    return plain(shortened(text, 300).replace("\n", " "))
