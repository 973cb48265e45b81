"""What tests of lanes that come and go ask of the lanes of one stream, and how its time passes."""

from dataclasses import replace

from sqlalchemy import create_engine, delete

from headrace.cycle.topics import TOPICS_EVERY_S
from headrace.model.streams import Order, StreamId
from headrace.policies.data_loss import LIST_PATIENCE_S
from headrace.store.schema import positions
from headrace.testing.wide_log import WideLog, offset_of

ACME, TOPIC = StreamId("keep", "acme"), "acme.visits"
LANE = f"{TOPIC}[0]"


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


def places(world, of=ACME):
    """Where each lane reads next, by its name."""
    return {
        position.lane.name: position.next_offset
        for position in world.store.progress.load_positions([of])
    }


def lose(world, name, stream=ACME):
    """Somebody deletes a row, or restores the store without it."""
    asked = delete(positions).where(
        positions.c.use_case == stream.use_case,
        positions.c.tenant == stream.tenant,
        positions.c.lane == name,
    )
    engine = create_engine(f"sqlite:///{world.folder}/store.db")
    with engine.begin() as connection:
        assert connection.execute(asked).rowcount == 1
    engine.dispose()


def divide(world, order, buckets, **chosen):
    """Deploy the use case so, and let it be taken."""
    (case,) = world.use_cases
    world.use_cases = [replace(case, order=order, buckets=buckets)]
    world.deploy(**chosen)
    world.take()


def divide_by_key(world, buckets, **chosen):
    """The same; a single bucket is the whole lane."""
    divide(world, Order.KEY if buckets > 1 else Order.LANE, max(buckets, 2), **chosen)


def stream(world, of=ACME):
    """As the store has it."""
    return next(found for found in world.store.registry.streams() if found.id == of)
