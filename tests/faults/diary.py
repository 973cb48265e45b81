"""What handlers wrote down while they ran, told to the checkers of flights, chains and isolation.

Each call of a handler appends a line when it begins and one when it ends, to one file for all
processes; the order of the lines is the order in which it happened. A process that is killed
leaves a call without an end, of which nobody can say how long it ran: it is left out.
"""

import json
from itertools import groupby

from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.testing.chain_checker import OffsetChain
from headrace.testing.flight_checker import SingleFlight
from headrace.testing.isolation_checker import Isolation

#: part of the module of use cases; ``{folder}`` is where the diary is
WRITER = """
import json

def write_down(call, what, context):
    (piece,) = context.slices
    line = [call, what, context.use_case, context.tenant, piece.lane.name, piece.topic,
            piece.from_offset, piece.until_offset, piece.epoch]
    with open("{folder}/diary", "ab", buffering=0) as diary:
        diary.write((json.dumps(line) + "\\n").encode())
"""


def flights(path):
    """Whether two different slices of a lane were handled at once under one epoch.

    The same slice may be: Spark runs it again elsewhere when it hears nothing of an executor.
    """
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    ended = {call for call, what, *_ in lines if what == "end"}
    open_calls, checker = {}, SingleFlight()
    for call, what, use_case, tenant, lane, topic, first, until, epoch in lines:
        if call not in ended:
            continue
        piece = Slice(LaneId(use_case, tenant, lane), topic, first, until, epoch)
        if what == "begin":
            if piece not in open_calls.values():
                checker.started(wave_of(piece))
            open_calls[call] = piece
        else:
            del open_calls[call]
            if piece not in open_calls.values():
                checker.ended(wave_of(piece))
    return checker.report()


def wave_of(piece):
    """A wave of one slice, known by the slice."""
    return Wave(f"{piece} of {piece.epoch}", piece.lane.use_case, (Bin((piece,), 1.0),), 1.0)


def chains(made):
    """Whether the slices of a sink that moves positions join, lane by lane.

    Args:
        made: its effects, those of one lane in the order they were made.
    """
    checker, lanes = OffsetChain(), {}
    for effect in made:
        lanes.setdefault(effect.place[:2], []).append(effect)
    for lane, effects in lanes.items():
        for begin, of_slice in groupby(effects, key=lambda effect: effect.begin):
            checker.moved(lane, begin, list(of_slice)[-1].place.offset + 1)
    return checker.report()


def isolation(owners, effects):
    """Whether each effect is of the tenant whose slice it was, and whose topic.

    Args:
        owners: tenants by topic.
        effects: for whom it was written, whose slice it was, and its record's place.
    """
    checker = Isolation()
    for topic, tenant in owners.items():
        checker.topic(tenant, topic)
    for tenant, slice_of, place in effects:
        checker.wrote(tenant, slice_of, place)
    return checker.report()
