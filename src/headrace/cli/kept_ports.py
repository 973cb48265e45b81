"""The ports of `headrace up`, which stay the same from start to start.

A producer, a notebook or a bookmark that found a server of `up` once is to find it again tomorrow.
So the ports are kept in the folder of `up`, one for each server, whatever else changes. Where one
is taken meanwhile, `up` does not go elsewhere in silence: it says who has the port and what to do,
and takes others only if it is told to.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

from headrace.embedded.addresses import is_free, lasting_port, taken_by
from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ServerError

_FILE = "ports.json"
#: where earlier versions kept them, as parts of addresses
_ADDRESSES = "servers.json"
_OF_ADDRESS = {
    "Kafka": "bootstrap.servers",
    "mail server": "smtp_url",
    "PostgreSQL": "database_url",
}


class KeptPorts:
    """The ports of the servers that are kept in one folder."""

    def __init__(self, folder: Path, *, anew: bool = False) -> None:
        """Read them; with ``anew`` they are forgotten.

        Args:
            folder: where `up` keeps everything.
            anew: take others.
        """
        self._folder = folder
        self._before = {} if anew else {**_of_addresses(folder), **_read(folder / _FILE)}
        self._taken: dict[str, int] = {}

    def take(
        self, server: str, data: Path | None = None, wished: int | None = None, without: str = ""
    ) -> int:
        """The port that a server had, or one that it has from now on.

        Args:
            server: its name, as people read it.
            data: its folder: one of a process that was killed may still be about to end.
            wished: what to take the first time, if it is free.
            without: how to start without this server, as words behind the others.

        Raises:
            ServerError: somebody else has the port.
        """
        if data is not None:
            FolderLock(data).close()
        port = self._before.get(server)
        if port is None:
            port = wished if wished is not None and is_free(wished) else self._chosen(server)
        elif not is_free(port):
            raise ServerError(
                f"port {port}, kept for the {server} of this folder, is taken by {taken_by(port)}: "
                "end that, and type 'headrace up' again; or 'headrace up --new-ports' takes other "
                f"ports, and whoever knows the old ones has to be told{without}"
            )
        self._taken[server] = port
        self._write()
        return port

    @property
    def told(self) -> str:
        """The servers and their ports, as people read them."""
        return ", ".join(f"{server} {port}" for server, port in self._taken.items())

    def _chosen(self, server: str) -> int:
        others = {*self._before.values(), *self._taken.values()}
        return lasting_port(f"{self._folder.resolve()} {server}", others)

    def _write(self) -> None:
        # A server that is not started today keeps its port.
        ports = {**self._before, **self._taken}
        draft = self._folder / f"{_FILE}.new"
        self._folder.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(ports, indent=1) + "\n", "utf-8")
        draft.replace(self._folder / _FILE)


def _read(path: Path) -> dict[str, int]:
    try:
        found = json.loads(path.read_text("utf-8"))
        return {str(server): int(port) for server, port in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _of_addresses(folder: Path) -> dict[str, int]:
    try:
        addresses = json.loads((folder / _ADDRESSES).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    found = {}
    for server, name in _OF_ADDRESS.items():
        address = addresses.get(name, "")
        try:
            port = urlsplit(address if "//" in address else f"//{address}").port
        except ValueError:
            continue
        if port is not None:
            found[server] = port
    return found
