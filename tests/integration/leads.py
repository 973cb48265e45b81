"""Leads of which the newest of each key stays: what tests of several targets write, and how."""

import random
import threading
import time
import uuid

import pyarrow as pa

from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.spark.refused_rows import as_a_whole
from headrace.testing.sink_suite import kills_in_the_middle
from zombies import Zombies

LEADS = {"lead": "text", "city": "text", "size": "bigint", "changed": "version", "gone": "boolean"}
SAID = {"key": ("lead",), "newest_by": "changed", "key_in_one_lane": True, "delete_by": "gone"}


def of_leads(*found):
    names, cities, sizes, versions, gone = zip(*found, strict=True)
    return pa.table(
        {
            "lead": pa.array(names, pa.string()),
            "city": pa.array(cities, pa.string()),
            "size": pa.array(sizes, pa.int64()),
            "changed": pa.array(versions, pa.int64()),
            "gone": pa.array(gone, pa.bool_()),
        }
    )


def one(lead, city, version, *, gone=False):
    return of_leads((lead, city, 1, version, gone))


def effect(table, tenant="acme", **more):
    piece = Slice(LaneId("keep", tenant, 0), "visits", 0, 9, epoch=1)
    return Effect((piece,), (9,), table, **more)


class Target:
    """What is one's own in a target, as a sink sees it."""

    def __init__(self, at, url):
        self.connections = Connections({}, "", servers={at: Server(url)})
        self.site = Site(self.connections, None)
        self.name = f"t{uuid.uuid4().hex[:20]}"

    def prepared(self, sink):
        sink.prepare(self.site)
        return sink

    def told(self, sink, *effects, site=None):
        return list(sink.open(site or self.site).write(effects))

    def write(self, sink, *tables, site=None):
        effects = [effect(table, f"t{number}") for number, table in enumerate(tables)]
        return [as_a_whole(told).error for told in self.told(sink, *effects, site=site)]


def due_after_zombies(sink, site, *, lanes, waves):
    """What is due of each key after attempts of all kinds, at once and late; with their seed."""
    seed = random.randrange(10**6)

    def write(wave_id, pieces, store):
        del wave_id, store
        effects = [
            Effect((piece,), (piece.until_offset,), _states(piece), version=piece.until_offset - 1)
            for piece in pieces
        ]
        return sink.open(site).write(effects)

    chance = random.Random(seed)
    zombies = Zombies(write, seed, lanes=lanes)
    with kills_in_the_middle(lambda: chance.random() < 0.1):
        zombies.until_over(waves)
    due = {}
    for lane in zombies.lanes:
        for at in range(zombies.store.at[lane][0]):
            due[_key(lane.tenant, at)] = None if at % 5 == 4 else f"{lane.tenant}-{at}"
    return due, seed


def _key(tenant, at):
    return f"{tenant}/{at % 3}"


def _states(piece):
    """Each record is the state of one of three keys; of five one takes it away."""
    places = range(piece.from_offset, piece.until_offset)
    tenant = piece.lane.tenant
    return of_leads(*((_key(tenant, at), f"{tenant}-{at}", at, at, at % 5 == 4) for at in places))


def taken_before_a_kill(target, sink, server, *, least, within_s):
    """The leads that were answered, more than some, before the server was killed in a write."""
    taken, stop = [], threading.Event()

    def write():
        for number in range(100_000):
            names = [f"k{number}-{n}" for n in range(20)]
            rows = of_leads(*((name, "Rome", 1, 1, False) for name in names))
            if stop.is_set() or target.write(sink, rows) != [None]:
                return
            taken.extend(names)

    writing = threading.Thread(target=write)
    writing.start()
    give_up_s = time.monotonic() + within_s
    while len(taken) <= least:
        assert time.monotonic() < give_up_s
        assert writing.is_alive(), taken
        time.sleep(0.01)
    server.kill()
    stop.set()
    writing.join(within_s)
    assert not writing.is_alive()
    server.start()
    return taken


def until_taken(target, sink, table, *, within_s):
    give_up_s = time.monotonic() + within_s
    while target.write(sink, table) != [None]:
        assert time.monotonic() < give_up_s
        time.sleep(0.2)
