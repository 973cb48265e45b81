"""A database that is restarted, and killed in the middle of commits."""

import threading
import time
import uuid
from contextlib import closing

import pytest
from acme import ACME, DEADLINE_S, LANES, moves, offsets, prepare
from matrix import note
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from headrace.embedded import EmbeddedPostgres
from headrace.embedded.addresses import free_ports
from headrace.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.lane_names import number_of
from headrace.model.records import Move
from headrace.model.streams import LaneId
from headrace.store import open_store
from headrace.testing.ledger import Found, Ledger, Place


@pytest.fixture
def own_server(open_folder):
    """A server of the test's own, durable, that comes back on the same port."""
    folder = open_folder / f"own-{uuid.uuid4().hex[:8]}"
    # commits take long, so that a kill is often during some
    slow = {"commit_delay": "20000", "commit_siblings": "0", "recovery_init_sync_method": "syncfs"}
    server = EmbeddedPostgres(folder, port=free_ports(1)[0], settings=slow)
    server.start()
    yield server
    server.stop()


def test_a_server_that_was_restarted_is_not_noticed_between_transactions(own_server):
    with closing(open_store(own_server.url)) as store:
        prepare(store)
        epoch = store.membership.hold([ACME])[ACME]
        own_server.stop()
        with pytest.raises(StoreUnavailable, match="does not answer"):
            store.revision()
        own_server.start()
        assert store.positions.advance(moves(epoch)) == [True] * LANES
        own_server.stop()
        own_server.start()
        assert offsets(store) == {10}


@pytest.mark.slow
def test_rows_and_positions_stay_together_over_kills_of_the_server(own_server):
    """Writers move a lane each, step by step, with a row for every step, while it is killed."""
    kills, ends, unknown = 0, {}, []
    with closing(open_store(own_server.url)) as store:
        prepare(store)
        epoch = store.membership.hold([ACME])[ACME]
        with store.positions.begin() as connection:
            connection.execute(text("CREATE TABLE steps (lane int, place int)"))
        over = threading.Event()
        writers = [
            threading.Thread(
                target=lambda p=p: ends.update({p: walk(store, epoch, p, over, unknown)})
            )
            for p in range(LANES)
        ]
        for writer in writers:
            writer.start()
        deadline_s = time.monotonic() + DEADLINE_S
        while kills < 4 or len(unknown) < 2:
            assert time.monotonic() < deadline_s, f"of {kills} kills few hit a commit: {unknown}"
            reached = min(offsets(store))
            wait_until(lambda reached=reached: min(offsets(store)) >= reached + 10)
            # writers have just committed together; the next commit is some milliseconds off
            over.wait(0.005 * (kills % 5))
            own_server.kill()
            own_server.start()
            kills += 1
        over.set()
        for writer in writers:
            writer.join(DEADLINE_S)
        final = {
            number_of(position.lane.name): position.next_offset
            for position in store.progress.load_positions()
        }
        with store._database.read() as connection:
            rows = connection.execute(text("SELECT lane, place FROM steps")).all()
    ledger = Ledger()
    ledger.topic("acme", "steps")
    for partition, end in ends.items():
        for at in range(end):
            ledger.acknowledged(Place("steps", partition, at))
    verdict = ledger.judge(Found("acme", Place("steps", *row)) for row in sorted(rows))
    note(
        "PostgreSQL killed during COMMIT", {"transacts": verdict}, faults=kills, records=len(ledger)
    )
    assert verdict.clean, str(verdict)
    assert len(rows) == len(ledger)
    assert ends == final


def walk(store, epoch, partition, over, unknown):
    """Step on until it is over; where it is then. ``unknown`` gets steps with a lost answer."""
    at, sure = 0, True
    # A step whose answer was lost last may be there: it is asked for again before the end.
    while not (sure and over.is_set()):
        try:
            with store.positions.begin() as connection:
                step = Move(LaneId(*ACME, f"acme.visits[{partition}]"), at, at + 1, epoch)
                (moved,) = store.positions.advance_in(connection, [step])
                if moved:
                    row = {"lane": partition, "place": at}
                    connection.execute(text("INSERT INTO steps VALUES (:lane, :place)"), row)
        except OutcomeUnknown:
            unknown.append((partition, at))
            sure = False
        except (StoreUnavailable, DBAPIError):
            time.sleep(0.02)
        else:
            at, sure = at + 1, True
    return at


def wait_until(condition):
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            if condition():
                return
        except StoreUnavailable:
            pass
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
