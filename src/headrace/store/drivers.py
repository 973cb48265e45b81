"""Drivers that share one store: who lives, and whose streams are whose.

A driver is a row that counts. It is replaced by the next one of its name, and inherited by another
one when it was silent for too long; both are decided under the locks of the rows, so that of two
heirs only one inherits, and none that was replaced or given up meanwhile. What it held then belongs
to the heir: streams, and waves written down.

What is in the name of nobody (of a driver that has no row) would be left to it for ever. So whoever
joins writes such names down as drivers that never beat, which are inherited from like the dead.

Here time is only counted in beats; what a missing beat means is ``policies/leases.py``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Select, delete, insert, select, update

from headrace.errors import Fenced
from headrace.model.records import Peer
from headrace.model.streams import State, StreamId
from headrace.policies.leases import joined
from headrace.store import answers, left_alone, revision
from headrace.store.intents import from_json, pending
from headrace.store.pairs import matching
from headrace.store.schema import drivers, intents, streams
from headrace.store.unlocked import lock_all

#: what a stream is that was given back
_FREE = {"holder": None, "expected_s": None}


def every(connection: Connection) -> list[Peer]:
    """All drivers, by name."""
    rows = connection.execute(select(drivers).order_by(drivers.c.name))
    return [
        Peer(row.name, row.number, row.beats, frozenset(json.loads(row.use_cases))) for row in rows
    ]


def join(
    connection: Connection,
    name: str,
    use_cases: Collection[str],
    *,
    process: str = "",
    again: bool = False,
) -> int:
    """Be this driver from now on, in the place of whoever was it before; return its number.

    Without ``again`` that was another process, which did not give back what it holds still. Waves
    that nameless drivers of an older Headrace wrote down become its own.

    Raises:
        Fenced: another process has replaced this one.
    """
    before = connection.scalar(_locked(drivers.c.processes, name)) or ""
    processes = joined(before.split(), process, again=again)
    if processes is None:
        raise _replaced(name)
    # It never comes again. A count of its own would begin anew once the row was given up, and two
    # drivers could be the same one.
    number = revision.current(connection)
    row = {
        "number": number,
        "processes": " ".join(processes),
        "use_cases": json.dumps(sorted(use_cases)),
    }
    if not connection.execute(update(drivers).where(drivers.c.name == name).values(row)).rowcount:
        connection.execute(insert(drivers).values(name=name, beats=0, **row))
    # Once the row is locked: whoever had it may have been about to say something.
    answers.forget(connection, name)
    if not again:
        left_alone.note(connection, name)
    connection.execute(update(intents).where(intents.c.driver.is_(None)).values(driver=name))
    for lost, use_cases_held in _of_nobody(connection).items():
        row = {"number": number, "use_cases": json.dumps(sorted(use_cases_held))}
        connection.execute(insert(drivers).values(name=lost, beats=0, **row))
    return number


def _of_nobody(connection: Connection) -> dict[str, set[str]]:
    """Names that hold streams or waves and are no drivers, with the use cases of those."""
    found: dict[str, set[str]] = defaultdict(set)
    known = select(drivers.c.name)
    held = select(streams.c.holder, streams.c.use_case).where(
        streams.c.holder.not_in(known), streams.c.state != State.REMOVED
    )
    for row in connection.execute(held.distinct()):
        found[row.holder].add(row.use_case)
    recorded = select(intents.c.driver, intents.c.wave).where(intents.c.driver.not_in(known))
    for row in connection.execute(recorded):
        found[row.driver].add(from_json(row.wave).use_case)
    return found


def beat(connection: Connection, name: str, number: int) -> list[Peer]:
    """Count up, and look at all drivers; an empty list if this one was given up for dead.

    Raises:
        Fenced: another driver of this name was started.
    """
    known = connection.scalar(_locked(drivers.c.number, name))
    if known is None:
        return []
    if known != number:
        raise _replaced(name)
    counted = update(drivers).where(drivers.c.name == name).values(beats=drivers.c.beats + 1)
    connection.execute(counted)
    return every(connection)


def adopt(connection: Connection, heir: str, number: int, dead: Peer) -> bool:
    """Hand everything of a dead driver to its heir, who waits for nobody.

    False if it lives, is asleep in a transaction, or has an heir already, or if the heir is not the
    driver of its name any more.
    """
    asked = select(drivers).where(drivers.c.name.in_((heir, dead.name)))
    rows = {row.name: row for row in connection.execute(asked.with_for_update(skip_locked=True))}
    if heir == dead.name or len(rows) < 2 or rows[heir].number != number:
        return False
    if (rows[dead.name].number, rows[dead.name].beats) != (dead.number, dead.beats):
        return False
    held, written = streams.c.holder == dead.name, intents.c.driver == dead.name
    # Who writes a wave down has locked its streams, and who divides one has locked that.
    if not (lock_all(connection, streams, held) and lock_all(connection, intents, written)):
        return False
    left_alone.note(connection, dead.name)
    connection.execute(update(streams).where(held).values(holder=heir))
    connection.execute(update(intents).where(written).values(driver=heir))
    _forget(connection, dead.name)
    return True


def leave(
    connection: Connection, name: str, number: int, running: Collection[StreamId] = ()
) -> None:
    """Give everything back but streams of waves that it wrote down and did not finish.

    These wait for an heir, and nobody takes them for left alone: their driver ended in good order.
    But not of those that are ``running``: they wait as if it had died.
    """
    if not is_still(connection, name, number):
        return
    ours = streams.c.holder == name
    _lock(connection, ours)
    owed = _owed(connection, name)
    asked = select(streams.c.use_case, streams.c.tenant).where(ours)
    held = {StreamId(*row) for row in connection.execute(asked)}
    running_ones = held.intersection(running)
    for some in matching(streams, held - owed - running_ones):
        connection.execute(update(streams).where(some, ours).values(_FREE))
    for some in matching(streams, held & owed - running_ones):
        connection.execute(update(streams).where(some, ours).values(expected_s=None))
    if owed or running_ones:
        # Nobody counts on it any more, as on one that was lost.
        connection.execute(update(drivers).where(drivers.c.name == name).values(beats=0))
    else:
        _forget(connection, name)


def release(connection: Connection, name: str, number: int, given: Collection[StreamId]) -> None:
    """Make streams of this driver free, unless they are its successor's by now.

    What is written down in its name has to be run by who has the stream, so such a one stays.
    """
    if not is_still(connection, name, number):
        return
    for some in matching(streams, given):
        _lock(connection, some)
    for some in matching(streams, set(given) - _owed(connection, name)):
        ours = update(streams).where(some, streams.c.holder == name)
        connection.execute(ours.values(_FREE))


def _owed(connection: Connection, name: str) -> set[StreamId]:
    return {piece.lane.stream for wave in pending(connection, name) for piece in wave.slices}


def is_still(connection: Connection, name: str, number: int) -> bool:
    """Whether a driver is the one of its name, which stays so until the transaction ends."""
    return bool(connection.scalar(_locked(drivers.c.number, name)) == number)


def _lock(connection: Connection, wanted: ColumnElement[bool]) -> None:
    """Let nobody write down waves of these streams: one of the same name may be about to."""
    asked = select(streams.c.tenant).where(wanted)
    in_order = asked.order_by(streams.c.use_case, streams.c.tenant)
    connection.execute(in_order.with_for_update())


def _forget(connection: Connection, name: str) -> None:
    answers.forget(connection, name)
    connection.execute(delete(drivers).where(drivers.c.name == name))


def _replaced(name: str) -> Fenced:
    return Fenced(
        f"another driver named {name} was started on this store, and this one stops; "
        "give each driver a name of its own (--name) to let them share the work"
    )


def _locked(column: Column[Any], name: str) -> Select[Any]:
    return select(column).where(drivers.c.name == name).with_for_update()
