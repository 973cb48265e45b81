"""A sink that takes rows one by one and not all of them, in the loop."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from headrace.errors import SinkRefused, SinkUnavailable
from headrace.ports import RefusedRow, Written
from headrace.spark import refused_rows
from headrace.spark.slice_errors import error_of

TENANTS, RECORDS, KEYS = ("acme", "bolt", "cern"), 120, 7
LATER, NEVER = error_of(SinkUnavailable("busy")), error_of(SinkRefused("no"))


class Bulk:
    """Takes a row with some luck, and some never; keeps the order of a key."""

    exactly_once = None
    taken: list[tuple[str, int]] = []  # noqa: RUF012 - the one of all copies, as a server is
    chance = random.Random(3)

    def __init__(self, never=()):
        self.never = never

    def prepare(self, site):
        pass

    def open(self, site):
        return self

    def write(self, effects):
        return [self._one(effect.slices[0].lane.tenant, effect.output) for effect in effects]

    def _one(self, tenant, output):
        refused, blocked = [], set()
        offsets = output["offset"].to_pylist() if output.num_columns else []
        for row, offset in enumerate(offsets):
            if offset % KEYS in blocked:
                refused.append(RefusedRow(row))
            elif offset in self.never:
                refused.append(RefusedRow(row, NEVER))
                blocked.add(offset % KEYS)
            elif self.chance.random() < 0.05:
                refused.append(RefusedRow(row, LATER))
                blocked.add(offset % KEYS)
            else:
                self.taken.append((tenant, offset))
        return Written(refused=tuple(refused))

    def close(self):
        pass


@pytest.fixture(autouse=True)
def _anew(monkeypatch):
    Bulk.taken.clear()
    monkeypatch.setattr(refused_rows, "PAUSES_S", (0.0, 0.0))


def offsets(table, context):
    return pa.table({"offset": table["offset"]})


def run(world, sink, **options):
    world.use_cases = [world.make(offsets, sink=sink, **options)]
    world.deploy()
    for name in TENANTS:
        world.tenant(name, RECORDS)
    world.start()
    for _ in range(60):
        world.turns(10, seconds=2.0)
        if all(done == RECORDS for done in world.positions().values()):
            break
    return world.positions()


def firsts(tenant):
    """Records of a tenant in the order in which they came first, by key."""
    seen = dict.fromkeys(offset for name, offset in Bulk.taken if name == tenant)
    found = {key: [] for key in range(KEYS)}
    for offset in seen:
        found[offset % KEYS].append(offset)
    return found


def test_every_row_is_taken_in_the_end_and_the_order_of_a_key_is_kept(world):
    done = run(world, Bulk())
    assert set(done.values()) == {RECORDS}
    for tenant in TENANTS:
        for key, found in firsts(tenant).items():
            assert found == list(range(key, RECORDS, KEYS)), (tenant, key)


def test_rows_that_are_never_taken_are_dead_letters_and_nothing_else_is_missing(world):
    never = (5, 40, 41)
    done = run(world, Bulk(never), bad_record="dead-letter")
    assert set(done.values()) == {RECORDS}
    letters = {(one.slice.lane.tenant, one.error.offset) for one in world.dead_letters.letters}
    assert letters == {(tenant, offset) for tenant in TENANTS for offset in never}
    for tenant in TENANTS:
        for key, found in firsts(tenant).items():
            left = [offset for offset in range(key, RECORDS, KEYS) if offset not in never]
            assert found == left, (tenant, key)


def test_a_row_that_is_never_taken_stops_its_lane_at_its_record(world):
    done = run(world, Bulk((5,)))
    assert set(done.values()) == {5}
    assert [offset for _, offset in Bulk.taken if offset % KEYS == 5] == []
    assert {offset for _, offset in Bulk.taken} >= set(range(5))
