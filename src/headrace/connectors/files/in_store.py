"""Files into an object store: whole and under their name, or not there; nobody's are written over.

A file of a recorded wave bears, as metadata, the wave and the latest epoch of its lanes. It is put
where none of its name is, and the store itself refuses a second one. Where one is, it tells what to
do:

* one of the same wave is what an earlier attempt has written: it stays, and nothing is written;
* any other is of a slice that was cut the same by a wave before, as before a seek. It is replaced,
  if the store of positions says that our lanes still stand where our slices begin, and only if it
  is still the file that was looked at.

Positions are asked besides before anything is put, so one that wakes up after its wave was settled,
or its stream was sought, leaves no file. What is left open are the moments between that answer and
the end of the request: a stream that is sought in them may have the file of its old slice as well.

A file under a later epoch than the store of positions gives is of a store that was restored: a
person has to look. Without recorded waves a file is written over one of its name.

Files are put some at a time, and what is found under their names is settled in the same threads. A
store that asks to slow down, or says nothing, is given no more of the call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from headrace.connectors.files.shape import Shape
from headrace.connectors.local_files import at_once
from headrace.connectors.object_stores.errors import BeatenError
from headrace.connectors.object_stores.stores import Found, Mark, Store, store_of
from headrace.connectors.object_stores.urls import read
from headrace.connectors.outcomes import failed, told
from headrace.connectors.own_servers import ALL_S, LONG_S, is_one_for_each_tenant
from headrace.connectors.standing import gone
from headrace.errors import (
    CodeNotLoaded,
    ConfigError,
    HeadraceError,
    SinkRefused,
    SinkUnavailable,
    TargetMissing,
    TenantsSinkSlow,
)
from headrace.model.patterns import TENANT
from headrace.model.waves import planned_id
from headrace.ports import Effect, Site, Written
from headrace.process.crash_points import reached

_TRIES = 10
_UNTRIED: Final = Written(untried=True)


def prepare(site: Site, at: str, folder: str) -> None:
    """See that a store takes a name once; of one for each tenant, that its URL can be read.

    Raises:
        ConfigError: there is no such connection, or it cannot be written to.
        SinkUnavailable: it does not answer.
    """
    try:
        if not is_one_for_each_tenant(site.connections, at, telling=True):
            store_of(site.connections, at).prove(folder, site.connections.installation)
        elif TENANT not in at:
            read(site.connections.server(at), "tenant", f"connection {at}")
    except (TargetMissing, SinkRefused, CodeNotLoaded) as error:
        raise ConfigError(str(error)) from error


class _Put(NamedTuple):
    """A file that is to be there."""

    #: of its effect
    of: int
    store: Store
    name: str
    rows: pa.Table


class StoreWriter:
    """Puts the files of each effect into the store of its tenant, or of all."""

    def __init__(self, site: Site, at: str, folder: str, shape: Shape) -> None:
        """Take where the bin runs, and what its files are like; contacts nobody yet.

        Raises:
            ConfigError: the YAML file names no such connection.
        """
        self._site, self._at, self._folder, self._shape = site, at, folder, shape
        self._of_tenants = is_one_for_each_tenant(site.connections, at)
        self._in_company = site.in_company and self._of_tenants
        # Only what was written down before it runs has a fence.
        self._once = bool(site.fence)
        #: stores that are given no more in this call, and why
        self._down: dict[Store, HeadraceError] = {}
        self._until_s = 0.0
        #: held by who asks positions while others put
        self._asking = threading.Lock()

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Write all effects that can be written; see ``SinkWriter.write``."""
        given, outcomes = dict(enumerate(effects)), dict[int, Written]()
        self._down, self._until_s = {}, time.monotonic() + ALL_S
        puts = self._puts(given, outcomes)
        asked = {put.of: given[put.of] for put in puts}
        try:
            outcomes |= self._gone(asked)
        except HeadraceError as error:
            outcomes |= dict.fromkeys(asked, failed(error))
        left = [put for put in puts if put.of not in outcomes]
        tried = at_once(lambda put: self._tried(put, given[put.of]), left) if left else []
        for put, became in zip(left, tried, strict=True):
            if became != Written() and outcomes.get(put.of, _UNTRIED) == _UNTRIED:
                outcomes[put.of] = became
        return [outcomes.get(index, Written()) for index in given]

    def close(self) -> None:
        """Nothing to give up: clients are kept for the next bin."""

    def _puts(self, effects: Mapping[int, Effect], outcomes: dict[int, Written]) -> list[_Put]:
        """The files of all effects; those of which there can be none stand in ``outcomes``."""
        puts: list[_Put] = []
        for index, effect in effects.items():
            try:
                files = self._shape.files(effect)
                store = self._store(effect.slices[0].lane.tenant) if files else None
            except Exception as error:  # Arrow has many kinds, and the table is one tenant's
                outcomes[index] = failed(error, self._shape.where)
                continue
            if store is not None:
                puts += [_Put(index, store, f"{self._folder}/{path}", rows) for path, rows in files]
        return puts

    def _store(self, tenant: str) -> Store:
        site, whose = self._site, tenant if self._of_tenants else ""
        try:
            return store_of(site.connections, self._at, whose, in_company=self._in_company)
        except ConfigError as error:
            raise TargetMissing(f"tenant {tenant}: {error}") from error

    def _tried(self, put: _Put, effect: Effect) -> Written:
        """Put a file, if there is time for it; run by several threads."""
        began_s = time.monotonic()
        try:
            if self._is_late(effect):
                return _UNTRIED
            self._demand_ready(put.store)
            if self._once:
                return self._put_once(put, effect)
            body = self._shape.body(put.rows)
            reached("mid-write", effect.slices[0].lane.use_case)
            put.store.overwrite(put.name, body)
        except Exception as error:
            return failed(self._noted(put.store, error, began_s))
        return Written()

    def _put_once(self, put: _Put, effect: Effect) -> Written:
        """Put a file where none is, or see what becomes of one whose name is taken."""
        mark = self._mark(effect)
        body = self._shape.body(put.rows, str(mark))
        reached("mid-write", effect.slices[0].lane.use_case)
        try:
            put.store.create(put.name, body, mark)
        except BeatenError:
            return self._settled(put, effect)
        return Written()

    def _is_late(self, effect: Effect) -> bool:
        """Whether others have waited long enough for stores of tenants."""
        waits = self._in_company and effect.may_repeat
        return waits and time.monotonic() > self._until_s

    def _demand_ready(self, store: Store) -> None:
        """See, once in a process, that the store is the right one, and that it takes something."""
        known = (self._folder, self._site.connections.installation)
        if not store.is_proved(*known):
            with store.proving:
                self._prove(store, *known)
        self._demand_up(store)

    def _demand_up(self, store: Store) -> None:
        if store in self._down:
            raise self._down[store]

    def _prove(self, store: Store, *known: str) -> None:
        if store in self._down or store.is_proved(*known):
            return
        began_s = time.monotonic()
        try:
            (store.prove if self._of_tenants else store.demand_proved)(*known)
        except HeadraceError as error:
            # Noted before the next one may look.
            raise self._noted(store, error, began_s) from None

    def _settled(self, put: _Put, effect: Effect) -> Written:
        """What becomes of a file whose name is taken."""
        for _ in range(_TRIES):
            if self._is_late(effect):
                return _UNTRIED
            self._demand_up(put.store)
            found = put.store.found(put.name)
            if self._is_ours(found):
                return Written()
            with self._asking:
                if self._gone({put.of: effect}):
                    return Written(superseded=True)
            try:
                self._put_after(found, put, effect)
            except BeatenError:
                continue
            return Written()
        return failed(SinkUnavailable(f"{put.store.where}: others write {put.name} all the time"))

    def _put_after(self, found: Found | None, put: _Put, effect: Effect) -> None:
        mark = self._mark(effect)
        # Stores may know a file by a digest of it: another attempt's must have another one.
        body = self._shape.body(put.rows, str(mark))
        if found is None:
            return put.store.create(put.name, body, mark)
        if found.mark is not None and found.mark.epoch > mark.epoch:
            raise TargetMissing(
                f"{put.store.where}: {put.name} is there under epoch {found.mark.epoch}, and the "
                f"store is at {mark.epoch}: was the store restored from a backup? See that no "
                "other driver writes here, then move the file away"
            )
        return put.store.replace(put.name, body, mark, found.version)

    def _is_ours(self, found: Found | None) -> bool:
        mark = None if found is None else found.mark
        return mark is not None and planned_id(mark.wave_id) == planned_id(self._site.wave_id)

    def _mark(self, effect: Effect) -> Mark:
        return Mark(self._site.wave_id, max(piece.epoch for piece in effect.slices))

    def _gone(self, effects: Mapping[int, Effect]) -> dict[int, Written]:
        """Effects that are another's by now."""
        return gone(self._site.positions, effects) if self._once else {}

    def _noted(self, store: Store, error: Exception, began_s: float) -> HeadraceError:
        """In our words; a store that takes nothing now is not asked again in this call."""
        said = told(error, self._shape.where)
        if not isinstance(said, SinkUnavailable):
            return said
        if self._of_tenants and time.monotonic() - began_s > LONG_S:
            said = TenantsSinkSlow(str(said), retry_after_s=said.retry_after_s)
        # All who were waiting for it are told the same.
        return self._down.setdefault(store, said)
