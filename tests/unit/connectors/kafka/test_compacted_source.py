"""What a topic that is compacted between a lost attempt and its replay does to merged lanes."""

from collections import Counter

import pyarrow as pa
import pytest
from test_sink_transactions import Broker, FakeLine

from driver_world import World
from headrace.connectors.kafka import sink_transactions
from headrace.sinks import KafkaTopic
from headrace.testing.log_fake import Row


@pytest.fixture
def broker(monkeypatch):
    """A broker whose lines stay, as a worker's do."""
    made, lines = Broker(), {}

    def line_for(settings):
        name = settings["transactional.id"]
        return lines.get(name) or lines.setdefault(name, FakeLine(made, settings))

    monkeypatch.setattr(sink_transactions, "line_for", line_for)
    return made


def places(table, _context):
    rows = zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
    return pa.table({"value": [f"{partition}-{offset}" for partition, offset in rows]})


@pytest.mark.parametrize("order", ["stream", "lane"])
def test_no_record_is_sent_twice_though_its_replay_finds_fewer(tmp_path, broker, order):
    """Of the lane that ends first the youngest records go: the merge ends earlier than it did."""
    world = World(tmp_path)
    sink = KafkaTopic("{tenant}.scores", transactional=True)
    world.use_cases = [world.make(places, sink=sink, guarantee="exactly-once", order=order)]
    world.deploy()
    world.tenant("acme", partitions=2)
    for partition, apart_ms in ((0, 10), (1, 5)):
        rows = [Row(b"x", timestamp_ms=number * apart_ms) for number in range(300)]
        world.log.append("acme.visits", partition, rows)
    world.start()
    while not world.driver.board.flights:
        world.turns(1)
    world.engine.finished(0)
    first = len(broker.committed)
    assert 0 < first < 600
    world.log.compact("acme.visits", 1, range(60, 200))
    world.start()
    for _ in range(600):  # a call that had to wait for its processor ends with what it has done
        world.turns(1, 1.0)
        if all(place == 300 for place in world.positions().values()):
            break
    assert world.positions() == {("acme", 0): 300, ("acme", 1): 300}
    assert len(broker.committed) > first
    assert not [place for place, times in Counter(broker.committed).items() if times > 1]
