"""The store as a whole, where the contract suite does not reach."""

import threading

from sqlalchemy import Engine, event

from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.streams import LaneId, State, StreamId, Tenant
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
    store.progress.start_lanes(
        [LaneStart(stream, "id", {f"{stream.tenant}.visits[{p}]": 0 for p in range(4)})]
    )
    epoch = store.membership.hold([stream])[stream]
    answers = []

    def work(partition):
        for at in range(10):
            answers.extend(
                store.positions.advance(
                    [
                        Move(
                            LaneId(*stream, f"{stream.tenant}.visits[{partition}]"),
                            at,
                            at + 1,
                            epoch,
                        )
                    ]
                )
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


def test_a_list_of_removed_tenants_is_added_again_with_few_statements(tmp_path):
    # The lock that all writers wait for is held meanwhile.
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.registry.deploy(Deployment("score", "m.py", "00", "{tenant}.visits"))
    many = [Tenant(f"t{number:03}") for number in range(400)]
    store.registry.add_tenants(many)
    store.registry.set_tenant_states(store.registry.tenants(), State.REMOVED)
    statements = []

    def note(*said):
        statements.append(said[2])

    event.listen(Engine, "before_cursor_execute", note)
    try:
        store.registry.add_tenants(many)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert len(statements) < 30
    assert {stream.state for stream in store.registry.streams()} == {State.ACTIVE}
    store.close()
