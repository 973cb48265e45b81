"""Waves written down before they run.

A sink without transactions can still do exactly-once if the same slices are run again after a
crash. So the wave is kept exactly as it was planned, and a replay reads it back equal. It is kept
as JSON of its slices.

A wave is of many tenants, and they come to their ends apart. A slice is forgotten when its lane has
moved on or was sent elsewhere, when its driver says that it came to nothing and still has the
stream, or when its stream begins anew: whoever has it then does not know of a record that a dead
driver left, and cuts slices of its own. Whatever else became of the wave, the other slices stay
written down, in its own record or in those of its parts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, true, update

from headrace.model.places import Place, read_place, text_of
from headrace.model.records import Move
from headrace.model.streams import (
    BadRecordPolicy,
    Guarantee,
    LaneId,
    Order,
    PassedRange,
    Slice,
    State,
    StreamId,
)
from headrace.model.waves import Bin, Terms, Wave
from headrace.ports import Finished
from headrace.store import reads
from headrace.store.pairs import matching
from headrace.store.positions import advance
from headrace.store.schema import intents, positions, streams

#: what is text in JSON
_PLACES = ("from_offset", "until_offset")
#: what came later to slices, and what it is called beside them, in their bin
_LATER = (("depth", "depths"), ("ordinal", "ordinals"), ("most_bytes", "most_bytes"))


def record(connection: Connection, wave: Wave, driver: str | None) -> bool:
    """Write the wave down; doing so again, as after a lost answer, changes nothing.

    A driver that slept wakes up with a plan for streams that another one has by now, or that are
    removed; it is told so under the locks of the streams, before anything of its plan can run.
    """
    is_there = streams.c.state != State.REMOVED.value
    if driver is not None and not _holds(connection, driver, wave, is_there):
        return False
    known = connection.scalar(select(intents.c.wave).where(intents.c.wave_id == wave.id))
    if known is None:
        connection.execute(
            insert(intents).values(wave_id=wave.id, wave=to_json(wave), driver=driver)
        )
        return True
    assert from_json(known) == wave, f"wave {wave.id} is written down with other slices"
    return True


def take_turn(connection: Connection, going: Wave, tenants: Sequence[str], driver: str) -> bool:
    """Write down who of a wave runs next; see ``Progress.take_turn``."""
    if not _holds(connection, driver, going):
        return False
    named = intents.c.wave_id == going.id
    asked = select(intents.c.wave).where(named, _of(driver)).with_for_update()
    known = connection.scalar(asked)
    if known is None:
        return False
    wave = replace(from_json(known), turn=tuple(tenants))
    connection.execute(update(intents).where(named).values(wave=to_json(wave)))
    return True


def finish(
    connection: Connection,
    wave_id: str,
    moves: Sequence[Move],
    driver: str | None,
    over: Collection[Slice] = (),
    parts: Sequence[Wave] = (),
) -> Finished:
    """Move positions, and keep what is still to do of the wave; see ``Progress.finish_intent``."""
    moved = advance(connection, moves)
    named = intents.c.wave_id == wave_id
    asked = select(intents.c.wave, intents.c.driver).where(named).with_for_update()
    known = connection.execute(asked).one_or_none()
    done = {(move.lane, move.from_offset) for move, ok in zip(moves, moved, strict=True) if ok}
    if known is not None and driver not in (None, known.driver):
        # Its heir has not taken the streams yet, and must not write under what is taken.
        wave = from_json(known.wave)
        _leave(connection, wave, replace(wave, taken=wave.is_taken_by(done)))
    elif known is not None:
        wave = from_json(known.wave)
        due = dict(_due(connection, wave, done, over))
        believed = list(_believed(wave, parts, due))
        parted = {piece.begin for part in believed for piece in part.slices}
        left = wave.only(lambda piece: piece.begin in due and piece.begin not in parted)
        if believed:
            _keep(connection, believed, driver)
        left = replace(left, taken=wave.is_taken_by(done))
        _leave(connection, wave, left)
        if not parts:
            return Finished(moved, [left] if left.bins else [])
    names = [wave_id, *(part.id for part in parts)]
    return Finished(moved, _pending(connection, intents.c.wave_id.in_(names), _of(driver)))


def _believed(
    wave: Wave, parts: Sequence[Wave], due: dict[tuple[LaneId, Place], int]
) -> Iterator[Wave]:
    """Parts by who has their lanes; who divides a wave only thinks so, and may be replaced by now.

    What was forgotten meanwhile is of another topic, or of a stream that began anew.
    """
    written = {piece.begin for piece in wave.slices}
    for part in parts:
        left = part.only(lambda piece: piece.begin in written)
        if left.bins and all(
            due.get(piece.begin, piece.epoch) == piece.epoch for piece in left.slices
        ):
            yield left


def begin_anew(connection: Connection, tenants: Collection[str]) -> None:
    """Forget what was recorded of those streams of tenants that have no positions any more."""
    if not tenants:
        return
    reads.forget_lost(connection, tenants)
    for wave in _each(connection, true(), lambda stream: stream.tenant in tenants):
        finish(connection, wave.id, [], None)


def leave_behind(
    connection: Connection, stream: StreamId, *, merged: bool, moves: Sequence[Move] = ()
) -> None:
    """Forget what was recorded of a stream but where its lanes stand, as some were sent elsewhere.

    Should they come by again, they come with new slices: it was said that these be read anew. With
    ``merged`` nothing is left of merged lanes: what comes again belongs before their records. So it
    is where one of them was moved into the middle of its slice: the rest of that is cut anew, and
    belongs among their records.
    """
    reads.leave_behind(connection, stream)
    for wave in _each(connection, _naming(stream), lambda of: of == stream):
        if (merged or wave.is_cut_by(moves)) and wave.merges_lanes:
            _leave(connection, wave, wave.only(lambda piece: piece.lane.stream != stream))
        else:
            finish(connection, wave.id, [], None)


def forget(connection: Connection, stream: StreamId, topics: Collection[str]) -> None:
    """Forget what was recorded of a stream: its offsets are of other topics from now on.

    ``topics`` are these, as ``others`` has them.
    """
    reads.forget_stream(connection, stream, topics)
    for wave in _each(connection, _naming(stream), lambda of: of == stream):
        _leave(connection, wave, wave.without_topics(stream, topics))


def _each(
    connection: Connection, wanted: ColumnElement[bool], concerned: Callable[[StreamId], bool]
) -> Iterator[Wave]:
    """Waves with slices of such streams, each locked; looked for until there are no others.

    Who divides one meanwhile has written its parts down when its lock is free.
    """
    seen: set[str] = set()
    while found := [
        wave.id
        for wave in _pending(connection, wanted)
        if wave.id not in seen and any(concerned(piece.lane.stream) for piece in wave.slices)
    ]:
        for name in found:
            seen.add(name)
            asked = select(intents.c.wave).where(intents.c.wave_id == name).with_for_update()
            if (known := connection.scalar(asked)) is not None:
                yield from_json(known)


def _naming(stream: StreamId) -> ColumnElement[bool]:
    """Whether a wave may have slices of a stream, by its text: to read many takes long."""
    lane = json.dumps([*stream, ""], separators=(",", ":"))
    return intents.c.wave.contains(lane.removesuffix('"]'), autoescape=True)


def _leave(connection: Connection, wave: Wave, left: Wave) -> None:
    """Keep of a recorded wave what is left of it; with nothing left it is forgotten."""
    named = intents.c.wave_id == wave.id
    if not left.bins:
        connection.execute(delete(intents).where(named))
    elif left != wave:
        connection.execute(update(intents).where(named).values(wave=to_json(left)))


def _keep(connection: Connection, parts: Sequence[Wave], driver: str | None) -> None:
    """Write parts down; of the same call again they are there, beside what was left, if any."""
    asked = select(intents.c.wave_id).where(intents.c.wave_id.in_([part.id for part in parts]))
    there = set(connection.scalars(asked))
    for part in parts:
        if part.id not in there:
            row = {"wave_id": part.id, "wave": to_json(part), "driver": driver}
            connection.execute(insert(intents).values(row))


def _due(
    connection: Connection, wave: Wave, done: set[tuple[LaneId, Place]], over: Collection[Slice]
) -> Iterator[tuple[tuple[LaneId, Place], int]]:
    """Where slices of a wave begin whose lanes are still there, with the lanes' epochs."""
    left = {piece.begin for piece in wave.slices} - done
    nothing = {piece.begin: piece.epoch for piece in over}
    for some in matching(positions, {lane.stream for lane, _ in left}):
        for row in connection.execute(select(positions).where(some)):
            place = LaneId(row.use_case, row.tenant, row.lane), row.next_offset
            if place in left and nothing.get(place) != row.epoch:
                yield place, row.epoch


def _of(driver: str | None) -> ColumnElement[bool]:
    return true() if driver is None else intents.c.driver == driver


def _holds(connection: Connection, driver: str, wave: Wave, *more: ColumnElement[bool]) -> bool:
    """Whether it holds all streams of a wave, which stays so until the transaction ends."""
    wanted = {(piece.lane.stream, piece.epoch) for piece in wave.slices}
    held: set[tuple[StreamId, int]] = set()
    for some in matching(streams, {stream for stream, _ in wanted}):
        asked = select(streams.c.use_case, streams.c.tenant, streams.c.epoch).where(
            some, streams.c.holder == driver, *more
        )
        rows = connection.execute(asked.order_by(streams.c.tenant).with_for_update())
        held |= {(StreamId(row.use_case, row.tenant), row.epoch) for row in rows}
    return wanted <= held


def pending(connection: Connection, driver: str | None = None) -> list[Wave]:
    """Waves written down and not finished, of one driver or of all, oldest first."""
    return _pending(connection, _of(driver))


def settled(connection: Connection, driver: str) -> list[Wave]:
    """Waves in a driver's name, each locked, oldest first; looked for until there are no others.

    Who divides one meanwhile has written its parts down when its lock is free. That may be the one
    that had the name before: killed, and its last transaction not over yet.
    """
    ours = intents.c.driver == driver
    asked = select(intents.c.id, intents.c.wave).where(ours).order_by(intents.c.id)
    there = select(intents.c.id).where(ours)
    while True:
        locked = {row.id: row.wave for row in connection.execute(asked.with_for_update())}
        if locked.keys() >= set(connection.scalars(there)):
            return [from_json(wave) for wave in locked.values()]


def _pending(connection: Connection, *wanted: ColumnElement[bool]) -> list[Wave]:
    waves = connection.scalars(select(intents.c.wave).where(*wanted).order_by(intents.c.id))
    return [from_json(wave) for wave in waves]


def to_json(wave: Wave) -> str:
    """The wave as one JSON object with the names of its fields.

    Its terms stand in its bins, and what came later beside them: there a driver of an earlier
    version, which may inherit the wave while drivers are rolled, passes over what it does not know.
    Whose turn it is, and whether its id is taken, stand in the first bin alone: a turn may be of
    thousands.
    """
    kept = asdict(wave)
    terms, turn, taken = kept.pop("terms") or {}, kept.pop("turn"), kept.pop("taken")
    later = {name: terms.pop(name) for name in ("place", "bad_record") if name in terms}
    for bin_ in kept["bins"]:
        del bin_["hurried"]  # nothing that is written down is
        for piece in bin_["slices"]:
            piece |= {name: text_of(piece[name]) for name in _PLACES}
        ranges = [piece.pop("passed_range") for piece in bin_["slices"]]
        if any(ranges):
            bin_["passed_ranges"] = [passed and list(map(text_of, passed)) for passed in ranges]
        if terms:
            bin_ |= {"terms": terms, **later}
        for name, kept_as in _LATER:
            values = [piece.pop(name) for piece in bin_["slices"]]
            if any(values):
                bin_[kept_as] = values
    for first in kept["bins"][:1]:
        first.update({"turn": turn} if turn else {}, **{"taken": True} if taken else {})
    return json.dumps(kept, separators=(",", ":"))


def from_json(text: str) -> Wave:
    """The wave that ``to_json`` wrote, equal to it; of one without bins only those are not kept."""
    kept = json.loads(text)
    # What an earlier version wrote down has no terms.
    terms = next((_terms(bin_) for bin_ in kept["bins"] if "terms" in bin_), None)
    turn = next((tuple(bin_["turn"]) for bin_ in kept["bins"] if "turn" in bin_), ())
    taken = any("taken" in bin_ for bin_ in kept["bins"])
    kept["bins"] = tuple(_bin(bin_) for bin_ in kept["bins"])
    return Wave(**kept, terms=terms, turn=turn, taken=taken)


def _terms(of_bin: dict[str, Any]) -> Terms:
    kept = of_bin["terms"]
    chosen = {"guarantee": Guarantee(kept["guarantee"]), "order": Order(kept["order"])}
    bad_record = of_bin.get("bad_record")
    return Terms(
        **{**kept, **chosen},
        place=of_bin.get("place", ""),
        bad_record=None if bad_record is None else BadRecordPolicy(bad_record),
    )


def _slice(kept: dict[str, Any], later: dict[str, Any]) -> Slice:
    places = {name: read_place(kept[name]) for name in _PLACES}
    return Slice(**{**kept, "lane": LaneId(*kept["lane"]), **places, **later})


def _bin(kept: dict[str, Any]) -> Bin:
    # What an earlier version wrote down has none of it, nor what needs none.
    later = {name: kept[kept_as] for name, kept_as in _LATER if kept_as in kept}
    ranges = kept.get("passed_ranges", kept.get("gaps"))  # as they were called once
    if ranges is not None:
        later["passed_range"] = [
            passed and PassedRange(*map(read_place, passed)) for passed in ranges
        ]
    slices = (
        _slice(piece, {name: values[number] for name, values in later.items()})
        for number, piece in enumerate(kept["slices"])
    )
    # What an earlier version wrote down has no fence.
    return Bin(tuple(slices), kept["predicted_s"], kept.get("fence", ""))
