"""State of keys inside a task: found as of where a portion begins, committed where it ends.

What a handler makes of its state is right only if it found that of exactly the records before its
own. So the lane has to stand where the portion begins when its state is asked for, and the change
goes in the transaction that moves the lane from there: whoever was asleep, or was taken for dead,
finds the lane elsewhere, and neither handles nor commits.

Where a sink moves positions in its own transaction, the change goes in that. Elsewhere the task
moves positions and state together: behind the effect, which is made again, of the same state, if
the task is killed in between; or before it, with at-most-once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import ConfigError, HeadraceError, Temporary
from headrace.model.buckets import bucket_of
from headrace.model.records import Move
from headrace.model.state import StateChanges, StateLoaded
from headrace.model.streams import Slice, original
from headrace.ports import Effect, Positions, Written
from headrace.spark.portions import Portion
from headrace.spark.refused_rows import as_a_whole
from headrace.spark.slice_errors import error_of
from headrace.state.copies import StateCopies
from headrace.state.seen import PortionState
from headrace.use_cases import UseCase

#: a change of so much state is in a transaction of its own
MUCH_BYTES = 1024 * 1024
#: what only a deployment ends is looked at so often
_WAITS_S = 10.0


def state_of(
    use_case: UseCase,
    positions: Positions,
    portion: Portion,
    moved_on: Callable[[], None],
    copies: StateCopies,
) -> PortionState:
    """The state of a portion's lane; nobody is asked before the handler asks.

    Args:
        use_case: declares tables, and how much a tenant may have in them.
        positions: the store's.
        portion: of one lane.
        moved_on: told when the lane is not where the portion begins any more.
        copies: what this worker knows of lanes; this one's is taken from there.
    """
    piece = portion.slices[0]
    at = Move.of(piece, piece.from_offset)

    def load(table: str, keys: Sequence[bytes]) -> StateLoaded:
        if original(piece.lane.use_case) != piece.lane.use_case:
            raise ConfigError(
                f"{piece.lane.stream} reads again what has state, and there is none of where it "
                "begins: a rerun is for use cases without state; seek the stream itself"
            )
        found = positions.load_state(at, table, keys)
        if found is None:
            moved_on()
            raise Temporary(f"{piece}: its lane moved on, and so did its state")
        return found

    tables = {table.name: table for table in use_case.state}
    waits = _of_an_order_before(use_case, piece)
    known = copies.take(piece.lane, piece.from_offset, piece.epoch)
    owns = owner(portion.records)
    return PortionState(tables, load, owns, use_case.most_state, trouble=waits, known=known)


def _of_an_order_before(use_case: UseCase, piece: Slice) -> Temporary | None:
    """Why a lane has no state: it is a bucket whose keys other buckets of its lane have as well.

    Where a use case had another order, such buckets come to their end first, beside each other.
    What two of them change in one row would be lost in part.
    """
    bucket = bucket_of(piece.lane.name)
    keyed = all(table.scope == "key" for table in use_case.state)
    if bucket is None or (keyed and not bucket.by_place):
        return None
    return Temporary(
        f"{piece} is of a bucket of an order before, which has no state: other buckets beside it "
        f"have its keys too. Deploy {piece.lane.use_case} with the order of now and without state, "
        "and with state when the stream's lag was 0; until then this waits, and is not lost",
        retry_after_s=_WAITS_S,
    )


def owner(records: pa.Table) -> Callable[[bytes], bool]:
    """Tells whether a key is that of one of these records; looked at when the first is asked for.

    Each key of a lane is in one bucket of it, so nobody else has such a key meanwhile.
    """

    @cache
    def keys() -> frozenset[bytes | None]:
        return frozenset(pc.unique(records["key"]).to_pylist())

    return lambda key: key in keys()


def transactions(states: Sequence[StateChanges | None]) -> list[list[int]]:
    """Which of them go together in one transaction, by their rows: each once.

    What a tenant changes by the thousand would hold up those that come with it, so that goes alone,
    behind all others.
    """
    much = [row for row, state in enumerate(states) if state and state.weight > MUCH_BYTES]
    few = [row for row, state in enumerate(states) if not state or state.weight <= MUCH_BYTES]
    return [some for some in (few, *([row] for row in much)) if some]


def committed_with(
    positions: Positions, effects: Sequence[Effect], told: Sequence[Written]
) -> list[Written]:
    """Move the positions of effects that were written, with their state; what became of each.

    One that is written in part is not: what it made of its state cannot be taken in parts.
    """
    answers = [as_a_whole(written) for written in told]
    there = [row for row, written in enumerate(answers) if not (written.error or written.untried)]
    if not there:
        return answers
    moves, states = zip(*((effects[row].moves, effects[row].state) for row in there), strict=True)
    try:
        moved = positions.advance_groups(moves, states)
    except HeadraceError as error:
        # They may have moved all the same: then what comes again finds its lane elsewhere.
        for row in there:
            answers[row] = Written(error=error_of(error))
        return answers
    for row, mine in zip(there, moved, strict=True):
        done = replace(answers[row], committed=True)
        answers[row] = done if mine else Written(superseded=True)
    return answers
