"""The store as a whole, where the contract suite does not reach."""

import threading

from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.streams import LaneId, StreamId, Tenant
from headrace.store import open_store


def test_a_store_shows_where_it_is(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    assert repr(store) == f"SqlStore(sqlite:///{tmp_path}/store.db)"
    store.close()


def test_several_threads_use_one_store(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.registry.deploy(Deployment("score", "m.py", "00", "{tenant}.visits"))
    store.registry.add_tenant(Tenant("acme"))
    stream = StreamId("score", "acme")
    store.progress.start_lanes([LaneStart(stream, "id", dict.fromkeys(range(4), 0))])
    epoch = store.membership.hold([stream])[stream]
    answers = []

    def work(partition):
        for at in range(10):
            answers.extend(
                store.positions.advance([Move(LaneId(*stream, partition), at, at + 1, epoch)])
            )
            store.revision()

    threads = [threading.Thread(target=work, args=(partition,)) for partition in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 40
    assert [position.next_offset for position in store.progress.load_positions()] == [10] * 4
    store.close()
