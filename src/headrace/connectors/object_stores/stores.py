"""Object stores that ``connections`` names: a client for each, in each process.

A file of a store is there whole or not at all: one request brings it, and nobody sees it before the
store has all of it. What a rename is on a disk is a condition here: a name is taken only if it is
free (``If-None-Match: *``; of Google's, generation 0), and a file replaced only if it is still the
one that was looked at (``If-Match``). A store that knows no conditions is found out at a deploy.

Nothing is tried again here: what may pass is told, and comes again with its slice, so that whoever
asks us to slow down is heard. That a client reaches the very store which the driver has made ready
shows a file with the name of this installation, that each process looks for once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

from headrace.connectors.kept_servers import KeptServers, Key, key_of
from headrace.connectors.object_stores.clients import client
from headrace.connectors.object_stores.errors import BeatenError, library, told
from headrace.connectors.object_stores.urls import StoreUrl, read
from headrace.errors import SinkUnavailable, TargetMissing
from headrace.model.patterns import TENANT
from headrace.ports import Connections

#: what tells which attempt a file is of; one word, as names of metadata have no more everywhere
_MARK: Final = "headrace"
#: seconds for all of a request, and to be let in
_ALONE, _IN_COMPANY = (30, 5), (2, 1)


@dataclass(frozen=True, slots=True)
class Mark:
    """Which attempt a file is of."""

    wave_id: str
    #: the latest of its lanes: a store takes few bytes beside a file, and lanes may be thousands
    epoch: int

    def __str__(self) -> str:
        return f"{quote(self.wave_id)} {self.epoch}"


@dataclass(frozen=True, slots=True)
class Found:
    """A file that is there."""

    #: None: it was not put there by a recorded wave
    mark: Mark | None
    #: what the store knows this very file by
    version: Mapping[str, Any]


class Store:
    """A bucket, or a part of one. Safe in several threads; not to be taken over a fork."""

    def __init__(self, name: str, url: StoreUrl, waits: tuple[int, int], proved: set[str]) -> None:
        """Take where it is, and for which folders it was seen to be the right one."""
        self.where = f"connection {name} ({url.shown})"
        #: held by who looks whether this is the right one
        self.proving = threading.Lock()
        self._proved = proved
        self.url = url
        self._client = client(url, waits, self.where)

    def __repr__(self) -> str:
        return f"Store({self.where})"

    def create(self, name: str, body: bytes, mark: Mark) -> None:
        """Put a file where none is.

        Raises:
            BeatenError: there is one.
            HeadraceError: see ``errors.told``.
        """
        self._put(name, body, "create", mark)

    def replace(self, name: str, body: bytes, mark: Mark, version: Mapping[str, Any]) -> None:
        """Put a file in the place of one that was found.

        Raises:
            BeatenError: that is not there any more.
            HeadraceError: see ``errors.told``.
        """
        self._put(name, body, dict(version), mark)

    def overwrite(self, name: str, body: bytes) -> None:
        """Put a file, whatever is there.

        Raises:
            HeadraceError: see ``errors.told``.
        """
        self._put(name, body, "overwrite", None)

    def found(self, name: str) -> Found | None:
        """The file of this name, if there is one.

        Raises:
            HeadraceError: see ``errors.told``.
        """
        lib = library()
        with told(self.where):
            try:
                # A byte, since who is asked for none but the head says not why it lets nobody in.
                there = lib.get(self._client, name, options={"range": (0, 1)})
            except FileNotFoundError:
                return None
        versions = {"e_tag": there.meta.get("e_tag"), "version": there.meta.get("version")}
        return Found(
            _mark_of(there.attributes.get(_MARK, "")),
            {key: value for key, value in versions.items() if value is not None},
        )

    def read(self, name: str) -> bytes | None:
        """All of a file, if there is one.

        Raises:
            HeadraceError: see ``errors.told``.
        """
        lib = library()
        with told(self.where):
            try:
                return bytes(lib.get(self._client, name).bytes())
            except FileNotFoundError:
                return None

    def names(self, folder: str, after: str | None = None) -> list[str]:
        """What lies in a folder, by names as they sort; what comes after a name, if one is given.

        Raises:
            HeadraceError: see ``errors.told``.
        """
        lib, offset = library(), None if after is None else f"{folder}/{after}"
        with told(self.where):
            lists = lib.list(self._client, folder, offset=offset)
            paths = [one["path"] for some in lists for one in some]
        return [path.rsplit("/", 1)[1] for path in paths]

    def remove(self, names: Sequence[str]) -> None:
        """Take files away that nobody has heard of.

        Raises:
            HeadraceError: see ``errors.told``.
        """
        lib = library()
        with told(self.where), suppress(FileNotFoundError):
            lib.delete(self._client, list(names))

    def prove(self, folder: str, installation: str) -> None:
        """Leave the file that others look for, and see that a name is not taken twice.

        Raises:
            TargetMissing: it is, or nothing can be written.
            SinkUnavailable: the store does not answer.
        """
        name = _sentinel(folder, installation)
        for _ in range(2):
            try:
                self._put(name, b"headrace", "create", None)
            except BeatenError:
                self._proved.add(name)
                return
        raise TargetMissing(
            f"{self.where}: it writes over a file where it was told not to (If-None-Match), so one "
            "that comes late could replace a newer one; take a store that heeds it"
        )

    def is_proved(self, folder: str, installation: str) -> bool:
        """Whether this process has seen that this is the right one for a folder."""
        return _sentinel(folder, installation) in self._proved

    def demand_proved(self, folder: str, installation: str) -> None:
        """See that this is the store which the driver has made ready.

        Raises:
            SinkUnavailable: it is not, or does not answer.
        """
        name = _sentinel(folder, installation)
        if self.found(name) is None:
            raise SinkUnavailable(
                f"{self.where}: {os.uname().nodename} does not see {name}, which the driver has "
                "put there: does the endpoint lead elsewhere from here? If that file was removed, "
                "start the driver again"
            )
        self._proved.add(name)

    def _put(self, name: str, body: bytes, mode: Any, mark: Mark | None) -> None:
        attributes = {} if mark is None else {_MARK: str(mark)}
        with told(self.where):
            library().put(
                self._client,
                name,
                body,
                mode=mode,
                attributes=attributes,
                # In parts a file would not be one request, and what is left of it is paid for.
                use_multipart=False,
            )


_stores = KeptServers[Store]()
#: for which folders each was seen to be the right one; kept longer than clients, being small
_proofs: dict[Key, set[str]] = {}


def store_of(
    connections: Connections, at: str, tenant: str = "", *, in_company: bool = False
) -> Store:
    """The store of this name; made at the first call in this process, which contacts nobody.

    Args:
        connections: all of them.
        at: as the sink says it.
        tenant: whose, where each has its own.
        in_company: others wait for what is done in it.

    Raises:
        ConfigError: there is no such connection, its URL is none of an object store, or has an
            option that the client does not know.
        CodeNotLoaded: the client is not installed.
    """
    name = at.replace(TENANT, tenant)
    server = connections.server(name)
    key = key_of(name, tenant, server, in_company=in_company)
    return _stores.had(key, partial(_store, key))


def _store(key: Key) -> Store:
    proved = _proofs.setdefault(key._replace(in_company=False), set())
    url = read(key.server, key.tenant, f"connection {key.name}")
    return Store(key.name, url, _IN_COMPANY if key.in_company else _ALONE, proved)


def _sentinel(folder: str, installation: str) -> str:
    return f"{folder}/_headrace/shared" + (f"-{installation}" if installation else "")


def _mark_of(text: str) -> Mark | None:
    wave_id, _, epoch = text.partition(" ")
    return Mark(unquote(wave_id), int(epoch)) if wave_id and epoch.isdecimal() else None
