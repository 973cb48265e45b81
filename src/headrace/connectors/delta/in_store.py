"""A Delta table in an object store that ``connections`` names.

Delta's client has a client of such stores of its own, which is told the same of them as ours. What
a rename is to a commit on a disk is a condition here: the next commit is put where none is
(``If-None-Match``), so of two that want to be the next one alone is. A store that does not heed it
is found out at a deploy, as for files (`object_stores/stores.py`).

An answer may not come though a request goes on. So a commit that came to an error may still be
there later, and its files are left: were they taken away, it would name what is gone. A later
commit of the same lanes cannot follow the same snapshot as well, so nothing is there twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import quote

import pyarrow as pa

from headrace.connectors.delta.homes import LOG
from headrace.connectors.delta.library import BeatenError, of_the_table
from headrace.connectors.local_files import AT_ONCE, at_once
from headrace.connectors.object_stores import errors
from headrace.connectors.object_stores.stores import Store, store_of
from headrace.connectors.own_servers import is_one_for_each_tenant, name_problem
from headrace.errors import ConfigError, HeadraceError, SinkUnavailable
from headrace.model.patterns import TENANT
from headrace.ports import Connections

#: seconds for all of a request, and to be let in
_WAIT_S, _CONNECT_S = 30, 5
_PLAIN = re.compile(r"[A-Za-z0-9_=./-]+")
#: how Delta's client shows what was the cause of what
_BECAUSE = re.compile(r"\s*\x1b\[31m\S*\x1b\[0m\s*")


@dataclass(frozen=True)
class Bucket:
    """A home in an object store; see ``Home``."""

    store: Store
    folder: str
    where: str
    installation: str

    @property
    def uri(self) -> str:
        """The table, for Delta's client."""
        url = self.store.url
        below = f"{url.prefix}/{self.folder}" if url.prefix else self.folder
        return f"{url.kind}://{url.bucket}/{quote(below)}"

    @property
    def options(self) -> dict[str, str]:
        """The same as our own client is told; never to be shown."""
        url = self.store.url
        said = url.options | {
            "timeout": f"{_WAIT_S}s",
            "connect_timeout": f"{_CONNECT_S}s",
            "max_retries": "0",
            "retry_timeout": f"{_WAIT_S}s",
        }
        if url.kind == "s3":
            said["conditional_put"] = "etag"
        if url.options.get("endpoint", "").startswith("http://"):
            said["allow_http"] = "true"
        if url.ca_path is not None:
            said["certificate_path"] = url.ca_path
        return said

    @contextmanager
    def told(self) -> Iterator[None]:
        """Tell what Delta's client meets; ours tells by itself."""
        try:
            yield
        except (HeadraceError, BeatenError):
            raise
        except Exception as error:
            # The cause would show what was quoted.
            raise self._as_sinks(error) from None

    def make_ready(self) -> None:
        """See that a name is not taken twice, and leave the file that workers look for."""
        self.store.prove(self.folder, self.installation)

    def demand_ready(self) -> None:
        """See that this is the store which the driver has made ready."""
        if not self.store.is_proved(self.folder, self.installation):
            with self.told():
                self.store.demand_proved(self.folder, self.installation)

    def identity(self) -> None:
        """Nothing but a commit of our own tells which table it is."""

    def write(self, path: str, fill: Callable[[pa.NativeFile], None]) -> int:
        """Put a file, in one request."""
        out = pa.BufferOutputStream()
        fill(out)
        body = out.getvalue().to_pybytes()
        self.store.overwrite(self._name(path), body)
        return len(body)

    def writers(self, size_bytes: int) -> int:
        """As many as a store is asked at a time, since each waits for its answer."""
        return AT_ONCE

    def settle(self, paths: Sequence[str]) -> None:
        """Nothing: what was put is durable."""

    def has_all(self, paths: Sequence[str]) -> bool:
        """Whether all these files are there."""
        names = [self._name(path) for path in paths]
        return not names or None not in at_once(self.store.found, names)

    def remove(self, paths: Iterable[str]) -> None:
        """Take away files that no commit has."""
        names = [self._name(path) for path in paths]
        if names:
            with suppress(HeadraceError):
                self.store.remove(names)

    def left_in_doubt(self, paths: Iterable[str]) -> None:
        """Leave them: the commit may be on its way."""

    def read(self, path: str) -> bytes | None:
        """A file, if it is there."""
        return self.store.read(self._name(path))

    def names_in_log(self, after: str) -> Iterable[str]:
        """Those that sort after a name."""
        return self.store.names(self._name(LOG), after)

    def parquet(self, path: str) -> pa.NativeFile:
        """All of it."""
        body = self.read(path)
        if body is None:
            raise SinkUnavailable(f"{self.where}: {path} is not there any more")
        return pa.BufferReader(body)

    def settle_commits(self, versions: range) -> None:
        """Nothing: what was put is durable."""

    def _name(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def _as_sinks(self, error: Exception) -> HeadraceError:
        if (known := of_the_table(error, self.where)) is not None:
            return known
        where = f"{self.where}: {self.store.where}"
        beaten = isinstance(error, errors.BeatenError)
        said = error if beaten else errors.judged(_BECAUSE.sub(": ", str(error)), where)
        if isinstance(said, HeadraceError):
            return said
        return SinkUnavailable(f"{where}: others write to it, or clean it, at this moment")


def demand_in_store(folder: str, at: str) -> None:
    """See that a table of this name can be in a store.

    Raises:
        ConfigError: two clients might not read its name alike, or ``at`` is no name of one
            connection.
    """
    if TENANT in at:
        raise ConfigError(f"at={at!r}: a Delta table is one table, not one for each tenant")
    if problem := name_problem(at):
        raise ConfigError(problem)
    if not _PLAIN.fullmatch(folder):
        raise ConfigError(f"folder {folder!r}: in an object store take A-Z a-z 0-9 _ - = . and /")


def bucket_at(
    connections: Connections, at: str, folder: str, where: str, *, telling: bool = False
) -> Bucket:
    """A table's folder in a store; contacts nobody. For ``telling`` see ``Connections.server``.

    Raises:
        ConfigError: the YAML file names no such connection, its URL is none of an object store, or
            it is one for each tenant.
        CodeNotLoaded: the client of object stores is not installed.
    """
    if is_one_for_each_tenant(connections, at, telling=telling):
        raise ConfigError(f"{where}: it is one table, and connection {at} is one for each tenant")
    store = store_of(connections, at)
    said = store.url.options
    token = "session_token" not in said and os.environ.get("AWS_SESSION_TOKEN")
    if token and "access_key_id" in said:
        raise ConfigError(
            f"{where}: AWS_SESSION_TOKEN in the environment would be sent with the access key of "
            f"connection {at}: unset it, or say no user there"
        )
    return Bucket(store, folder, where, connections.installation)
