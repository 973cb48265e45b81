"""What can happen while a driver runs, one method each, and Hypothesis' choice of it."""

import math

from hypothesis import strategies as st
from stage import FATES, NEVER_PASSES, TENANTS, TROUBLES

from headrace.errors import (
    BrokerUnavailable,
    ConfigError,
)
from headrace.model.streams import LaneId, State, StreamId, Tenant, Throttle
from headrace.testing.log_twin import Row


class Play:
    """What can happen, one method each."""

    def __init__(self, stage):
        self.stage = stage

    def lane(self, which):
        tenant, partition = which
        found = LaneId("keep", TENANTS[tenant], partition)
        return found if found in self.stage.ways else found._replace(partition=0)

    def send(self, which, values):
        lane, rows = self.lane(which), []
        for value in values:
            self.stage.stamps += 1
            rows.append(Row(value, timestamp_ms=self.stage.stamps))
        self.stage.log.append(f"{lane.tenant}.visits", lane.partition, rows)

    def records(self, which, count):
        self.send(which, [b"good"] * count)

    def trouble(self, which, kind, lasts_s):
        if kind not in NEVER_PASSES:
            lasts_s = min(lasts_s, 10.0)
        until_s = self.stage.clock.monotonic_s() + lasts_s
        self.send(which, [b"good", f"{kind}:{until_s}".encode(), b"good"])

    def gap(self, which, offsets):
        lane = self.lane(which)
        self.stage.log.append_gap(f"{lane.tenant}.visits", lane.partition, offsets)

    def turns(self, fates, seconds, count):
        self.stage.fates = [self.fate(each) for each in fates]
        for _ in range(count):
            self.stage.turn(seconds)

    def fate(self, each):
        # Worker after worker killed by the machine can not be told from a handler that kills.
        self.stage.accidents += each == "killed"
        return "lost before" if each == "killed" and self.stage.accidents > 2 else each

    def store_stumbles(self, faults):
        self.stage.faults = list(faults)

    def broker(self, down):
        self.stage.log.down = down

    def dead_letters_stumble(self, keeps):
        self.stage.letters.fail_next(BrokerUnavailable("no broker"), keeps)

    def driver_is_killed(self):
        self.stage.start()

    def zombies_write(self):
        if self.stage.transacts:
            for each in self.stage.zombies:
                each.all_at_once()
        self.stage.zombies.clear()

    def tenant_state(self, tenant, state):
        self.stage.store.set_tenant_state(tenant, state)

    def stream_state(self, tenant, state):
        self.stage.store.set_stream_state(StreamId("keep", tenant), state)

    def throttle(self, tenant, rate):
        self.stage.store.set_throttle(tenant, Throttle(records_per_s=rate))

    def seek(self, which, part):
        lane = self.lane(which)
        before, after = self.stage.position(lane), int(part * self.stage.end_of(lane))
        if before is not None and not self.stage.intends:
            self.stage.store.seek(lane.stream, {lane.partition: after})
            self.stage.sent(lane, before, after)

    def remove_and_add(self, tenant):
        if self.stage.intends:
            return
        mine = [lane for lane in self.stage.ways if lane.tenant == tenant]
        before = {lane: self.stage.position(lane) for lane in mine}
        self.stage.store.set_tenant_state(tenant, State.REMOVED)
        self.stage.store.add_tenant(Tenant(tenant))
        for lane in mine:
            self.stage.sent(lane, before[lane], 0)

    def decide(self, number, skip):
        store = self.stage.store
        found = store.failures(only_open=True)
        if not found:
            return
        failure = found[number % len(found)]
        lane = failure.slice.lane
        before = self.stage.position(lane)
        if not skip:
            store.retry_failure(failure.id)
            return
        try:
            store.skip_failure(failure.id)
        except ConfigError:
            assert self.stage.guarantee == "at-most-once", f"{failure} at {before}"
            return
        self.stage.sent(lane, before, self.stage.position(lane))


def step(name, **given):
    return st.fixed_dictionaries({"name": st.just(name), **given})


_lanes = st.tuples(st.integers(0, 2), st.integers(0, 1))
_tenants = st.sampled_from(TENANTS)
_states = st.sampled_from([State.ACTIVE, State.SUSPENDED])
_turns = step(
    "turns",
    fates=st.lists(st.sampled_from(FATES), max_size=4),
    seconds=st.sampled_from([0.01, 0.1, 1.0, 5.0]),
    count=st.integers(1, 3),
)
_work = step("records", which=_lanes, count=st.integers(1, 8))
_trouble = step(
    "trouble",
    which=_lanes,
    kind=st.sampled_from(TROUBLES),
    lasts_s=st.sampled_from([0.3, 3.0, math.inf]),
)
_accident = st.one_of(
    step("gap", which=_lanes, offsets=st.integers(1, 3)),
    step(
        "store_stumbles",
        faults=st.lists(st.sampled_from([None, None, "before", "after"]), max_size=12),
    ),
    step("broker", down=st.booleans()),
    step("dead_letters_stumble", keeps=st.integers(0, 1)),
    step("driver_is_killed"),
    step("zombies_write"),
)
_operator = st.one_of(
    step("tenant_state", tenant=_tenants, state=_states),
    step("stream_state", tenant=_tenants, state=_states),
    step("throttle", tenant=_tenants, rate=st.sampled_from([None, 0.5, 5.0])),
    step("seek", which=_lanes, part=st.floats(0, 1)),
    step("remove_and_add", tenant=_tenants),
    step("decide", number=st.integers(0, 3), skip=st.booleans()),
)
PLAY_STEPS = st.lists(
    st.one_of(_work, _turns, _turns, _trouble, _accident, _operator), min_size=8, max_size=50
)
