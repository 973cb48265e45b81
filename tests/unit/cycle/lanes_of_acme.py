"""What tests of lanes that come and go ask of the lanes of one stream, and how its time passes."""

from headrace.cycle.topics import TOPICS_EVERY_S
from headrace.model.streams import StreamId
from headrace.policies.data_loss import LIST_PATIENCE_S
from headrace.testing.wide_log import WideLog, offset_of

ACME, TOPIC = StreamId("keep", "acme"), "acme.visits"


def look(world, turns=4):
    """Half a minute passes, so that topics are looked at."""
    world.clock.move(TOPICS_EVERY_S + 2)
    world.turns(turns)


def believed(world):
    """A lane is not listed for so long that it counts as gone; and some turns."""
    world.turns(int(LIST_PATIENCE_S) + 8, seconds=1.0)


def at(world):
    """Offsets by number, also where places are others."""
    shown = offset_of if isinstance(world.log, WideLog) else lambda place: place
    return {
        found.lane.name[len(TOPIC) + 1 : -1]: shown(found.next_offset)
        for found in world.store.progress.load_positions([ACME])
    }


def stream(world, of=ACME):
    """As the store has it."""
    return next(found for found in world.store.registry.streams() if found.id == of)
