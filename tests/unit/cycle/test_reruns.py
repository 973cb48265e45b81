"""A range is read again beside the live stream, to the same effects, and ends by itself."""

from dataclasses import replace

import pyarrow as pa
import pytest
from two_use_cases import after_look

from headrace.connectors.outcomes import identity
from headrace.cycle.reruns import RerunRange, begin, range_of, renew_reruns, renewed_by
from headrace.errors import ConfigError, StoreUnavailable, Temporary, UnknownName
from headrace.model.records import Deployment
from headrace.model.streams import DataLossPolicy, State, StreamId, original
from headrace.operating.retiring import retire
from headrace.operating.seeking import seek
from headrace.ports import Written
from headrace.testing.mirror_fake import MemoryMirror

ACME = StreamId("keep", "acme")
RERUN = StreamId("keep~1", "acme")


class Effects:
    """A sink that remembers what it was told, by the names of the effects."""

    exactly_once = "intent"

    def __init__(self):
        self.names, self.kept = [], {}

    def prepare(self, _site):
        pass

    def open(self, _site):
        return self

    def write(self, effects):
        for effect in effects:
            self.names.append(identity(effect))
            for row in effect.output.to_pylist():
                self.kept[row["offset"]] = row["version"]
        return [Written()] * len(effects)

    def close(self):
        pass


@pytest.fixture
def live(world):
    """Acme has read 10 and 4 records, and its use case has been mended since."""
    world.version, world.sink, world.use_case_names = 1, Effects(), set()
    world.order = []

    def handle(table, context):
        world.use_case_names.add(context.use_case)
        world.order.append([(context.tenant, offset) for offset in table["offset"].to_pylist()])
        offsets = [
            n * 100 + o
            for n, o in zip(
                *map(list, (table["partition"].to_pylist(), table["offset"].to_pylist())),
                strict=True,
            )
        ]
        return pa.table({"offset": offsets, "version": [world.version] * len(offsets)})

    world.use_cases = [world.make(handle, sink=world.sink)]
    world.deploy()
    world.tenant("acme", 10, partitions=2)
    world.send("acme", 4, partition=1)
    world.start()
    world.turns()
    world.version = 2
    world.sink.names.clear()
    return world


def take(world):
    """As the assembly does."""
    for deployment in world.store.registry.deployments():
        if deployment.until:
            use_case = replace(world.use_cases[0], name=deployment.use_case)
            world.engine.take(use_case, deployment)
            world.driver.take(use_case, deployment)


def rerun(world, first, last=None, share=0.2):
    made = begin(world.store, range_of(world.store, world.log, ACME, first, last), share)
    take(world)
    return made


def state(world, stream=RERUN):
    return next(found for found in world.store.registry.streams() if found.id == stream).state


def test_a_range_is_read_again_to_the_same_effects_and_then_it_is_over(live):
    assert rerun(live, '{"acme.visits": {"0": 6, "1": 1}}') == RERUN
    live.turns()
    done = {offset for offset, version in live.sink.kept.items() if version == 2}
    assert done == {6, 7, 8, 9, 101, 102, 103}
    assert len(live.sink.kept) == 14
    assert live.use_case_names == {"keep"}
    assert all(name.startswith("keep/acme/") for name in live.sink.names)
    assert state(live) is State.REMOVED
    assert live.positions() == {("acme", 0): 10, ("acme", 1): 4}
    assert live.driver.idle


def test_what_comes_meanwhile_is_the_live_streams_alone(live):
    rerun(live, "earliest")
    live.send("acme", 3)
    live.turns()
    assert live.positions()["acme", 0] == 13
    assert live.positions("keep~1")["acme", 0] == 10
    seen = [offset for call in live.order for offset in call]
    assert seen.count(("acme", 11)) == 1
    assert state(live) is State.REMOVED


def test_two_that_begin_at_the_same_time_have_names_of_their_own(live, monkeypatch):
    before = live.store.registry.deployments()
    wanted = range_of(live.store, live.log, ACME, "earliest", None)
    assert begin(live.store, wanted, 0.2) == RERUN
    # The second one had looked before the first one was there.
    monkeypatch.setattr(live.store.registry, "deployments", lambda: before)
    assert begin(live.store, wanted, 0.2) == StreamId("keep~2", "acme")
    monkeypatch.undo()
    ends = {
        deployment.use_case: deployment.until for deployment in live.store.registry.deployments()
    }
    whole = {"acme.visits[0]": 10, "acme.visits[1]": 4}
    assert ends == {"keep": None, "keep~1": whole, "keep~2": whole}


def test_a_version_that_is_deployed_while_a_rerun_begins_is_what_it_runs(live, monkeypatch):
    newer = replace(live.store.registry.deployments()[0], digest="cd34" * 16)
    wanted = range_of(live.store, live.log, ACME, "earliest", None)
    after_look(monkeypatch, live.store, 1, lambda: live.store.registry.deploy(newer))
    begin(live.store, wanted, 0.2)
    (_, made) = live.store.registry.deployments()
    assert (made.use_case, made.digest) == ("keep~1", newer.digest)
    assert made.until == {"acme.visits[0]": 10, "acme.visits[1]": 4}


def test_a_rerun_ends_where_it_is_told(live):
    rerun(live, "0", '{"acme.visits": {"0": 3, "1": 4}}')
    live.turns()
    done = sorted(offset for offset, version in live.sink.kept.items() if version == 2)
    assert done == [0, 1, 2, 100, 101, 102, 103]


def test_a_rerun_has_less_weight_than_what_is_fresh(live):
    rerun(live, "earliest", share=0.2)
    live.engine.paused = True
    live.turns(2)
    held, fresh = (live.driver.board.streams[stream].view(0.0) for stream in (RERUN, ACME))
    assert held.weight / (held.weight + fresh.weight) == pytest.approx(0.2)


def test_a_rerun_survives_its_driver(live):
    rerun(live, "earliest")
    live.engine.paused = True
    live.turns(2)
    live.start()
    take(live)
    live.turns()
    assert set(live.sink.kept.values()) == {2}
    assert state(live) is State.REMOVED


def test_a_use_case_that_is_removed_takes_its_reruns_along(live):
    begin(live.store, range_of(live.store, live.log, ACME, "earliest", None), 0.2)
    live.store.registry.set_stream_state(RERUN, State.SUSPENDED)
    take(live)
    live.turns(3)
    assert set(retire(live.store.registry, "keep")) == {ACME, RERUN}
    live.turns(3)
    assert state(live) is state(live, ACME) is State.REMOVED
    assert retire(live.store.registry, "keep") == []


def test_a_rerun_is_removed_alone(live):
    rerun(live, "earliest")
    assert retire(live.store.registry, "keep~1") == [RERUN]
    assert state(live, ACME) is State.ACTIVE


def test_a_rerun_that_was_ended_is_taken_up_no_more(live):
    rerun(live, "earliest")
    live.turns()
    assert [deployment.until for deployment in live.store.registry.deployments()] == [None, {}]


def until(live):
    """Where reruns are to end, by use case; nothing: nobody is to run it."""
    return {one.use_case: one.until for one in live.store.registry.deployments()}


@pytest.mark.parametrize("whole", [False, True])
def test_a_rerun_that_somebody_removes_is_nobodys_to_run_any_more(live, whole):
    """Drivers went on taking it up, and each deployment renewed it."""
    rerun(live, "earliest")
    if whole:
        retire(live.store.registry, "keep")
    else:
        live.store.registry.set_stream_state(RERUN, State.REMOVED)
    live.turns(3)
    assert until(live) == {"keep": None, "keep~1": {}}
    newer = replace(live.store.registry.deployments()[0], digest="cd34" * 16)
    live.store.registry.deploy(newer)
    renew_reruns(live.store.registry, ["keep"])
    assert live.store.registry.deployments()[1].digest != newer.digest


def test_a_rerun_that_is_removed_is_over_when_nothing_is_recorded_of_it(live):
    """By no driver: who takes up no such use case runs nothing of it again."""
    live.use_cases = [live.make(guarantee="exactly-once")]
    live.start()
    live.engine.paused = True
    rerun(live, "earliest")
    live.turns(2)
    assert [wave.use_case for wave in live.store.progress.pending_intents()] == ["keep~1"]
    live.store.registry.set_stream_state(RERUN, State.REMOVED)
    live.turns(2)
    assert until(live)["keep~1"], "it runs here"
    live.start(name="other")
    take(live)
    live.turns(2)
    assert until(live)["keep~1"], "another driver has recorded it"
    live.start()
    take(live)
    live.turns(3)
    assert live.store.progress.pending_intents() == []
    assert len(live.seen) == 14
    assert until(live)["keep~1"] == {}


def test_a_rerun_that_is_removed_under_a_driver_that_does_not_know_is_written_down_by_nobody(
    live, monkeypatch
):
    """Another driver ends it meanwhile, and then nobody would ever clear what was written down."""
    live.use_cases = [live.make(guarantee="exactly-once")]
    live.start()
    rerun(live, "earliest")
    record = live.store.progress.record_intent

    def late(wave, driver):
        live.store.registry.set_stream_state(RERUN, State.REMOVED)
        ended = replace(live.store.registry.deployments()[1], until={})
        live.store.registry.deploy(ended)
        return record(wave, driver)

    monkeypatch.setattr(live.store.progress, "record_intent", late)
    live.turns(3)
    assert live.store.progress.pending_intents() == []
    assert (live.seen, until(live)["keep~1"]) == ([], {})


@pytest.mark.parametrize("end", [StoreUnavailable("silent"), KeyboardInterrupt()])
def test_a_rerun_that_was_ended_by_halves_is_ended(live, monkeypatch, end):
    """Its stream is removed, and then the store is silent, or the driver is killed."""
    deploy, ends = live.store.registry.deploy, [end]

    def once(deployment, **more):
        if deployment.until == {} and ends:
            raise ends.pop()
        return deploy(deployment, **more)

    rerun(live, "earliest")
    monkeypatch.setattr(live.store.registry, "deploy", once)
    if isinstance(end, KeyboardInterrupt):
        with pytest.raises(KeyboardInterrupt):
            live.turns()
        assert state(live) is State.REMOVED
        live.start()
        take(live)
    live.turns()
    assert not ends
    assert [deployment.until for deployment in live.store.registry.deployments()] == [None, {}]


def test_reruns_are_numbered_and_one_is_not_rerun_itself(live):
    assert rerun(live, "earliest").use_case == "keep~1"
    live.turns()
    assert rerun(live, "earliest").use_case == "keep~2"
    with pytest.raises(ConfigError, match="is a rerun itself"):
        range_of(live.store, live.log, RERUN, "earliest", None)


def test_a_range_reaches_no_further_than_the_stream_and_says_how_much_it_is(live):
    live.store.registry.set_stream_state(ACME, State.SUSPENDED)
    live.turns(1)
    live.send("acme", 5)
    found = range_of(live.store, live.log, ACME, "2", "latest")
    assert found == RerunRange(
        ACME,
        "acme.visits",
        {"acme.visits[0]": (2, 10), "acme.visits[1]": (2, 4)},
        {"acme.visits[0]": 8, "acme.visits[1]": 2},
        live.store.registry.streams()[0].topic_id,
    )
    assert found.most == 10


def test_a_range_is_not_of_fewer_partitions_than_were_read_for_one_list_without_one(live):
    live.log.set_listed("acme.visits", 1, False)
    with pytest.raises(Temporary, match=r"acme.visits\[1\]: read before.*try again"):
        range_of(live.store, live.log, ACME, "earliest", None)


def test_where_nothing_was_read_nothing_begins(live):
    with pytest.raises(ConfigError, match="read nothing between"):
        range_of(live.store, live.log, ACME, "latest", None)
    with pytest.raises(UnknownName):
        range_of(live.store, live.log, StreamId("keep", "nobody"), "earliest", None)
    assert len(live.store.registry.deployments()) == 1


def test_a_rerun_begun_by_halves_never_runs(live, monkeypatch):
    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(live.store.progress, "seek", killed)
    with pytest.raises(KeyboardInterrupt):
        rerun(live, "earliest")
    take(live)
    live.turns()
    assert set(live.sink.kept.values()) == {1}


def test_what_retention_takes_from_a_rerun_stops_it_alone(live):
    rerun(live, "earliest")
    live.log.expire("acme.visits", 0, 5)
    live.turns()
    assert state(live) is State.SUSPENDED
    assert state(live, ACME) is State.ACTIVE
    (made,) = [
        deployment
        for deployment in live.store.registry.deployments()
        if deployment.use_case == "keep~1"
    ]
    assert made.data_loss is DataLossPolicy.FAIL


def test_what_retention_takes_where_a_rerun_has_nothing_to_read_does_not_stop_it(live):
    begin(
        live.store,
        RerunRange(ACME, "acme.visits", {"acme.visits[1]": (0, 4)}, {"acme.visits[1]": 4}),
        0.2,
    )
    take(live)
    live.engine.paused = True
    live.turns(2)  # by now it knows partition 0, of which it reads nothing
    live.log.expire("acme.visits", 0, 5)
    live.start()
    take(live)
    live.turns()
    assert sorted(at for at, version in live.sink.kept.items() if version == 2) == [
        100,
        101,
        102,
        103,
    ]
    assert state(live) is State.REMOVED


def test_a_rerun_reads_nothing_of_a_topic_that_was_made_again_before_a_driver_looked(live):
    begin(live.store, range_of(live.store, live.log, ACME, "earliest", None), 0.2)
    live.log.delete_topic("acme.visits")
    live.log.create_topic("acme.visits", 2)
    live.send("acme", 20)
    take(live)
    live.turns(30, 1.0)
    assert state(live) is State.SUSPENDED
    assert all(version == 1 for version in live.sink.kept.values())


def test_a_rerun_is_not_sought_into_a_topic_in_which_its_end_means_nothing(live):
    stream = rerun(live, "earliest")
    live.log.delete_topic("acme.visits")
    live.log.create_topic("acme.visits", 2)
    with pytest.raises(ConfigError, match="headrace streams remove acme/keep~1, and begin another"):
        seek(live.store, live.log, stream, "earliest")


def test_a_rerun_is_not_mirrored(live):
    live.mirror = MemoryMirror()
    live.start()
    rerun(live, "earliest")
    live.turns(3)
    live.driver.close()
    assert set(live.mirror.shown) == {"keep"}


def test_a_rerun_goes_on_with_the_new_version_and_keeps_its_range_and_share():
    old = Deployment(
        "keep~1", "a.py", "1", "{tenant}.x", share=0.25, until={"acme.visits[0]": 7}, retries=1
    )
    new = Deployment("keep", "b.py", "2", "{tenant}.x", retries=5)
    made = renewed_by(new, old)
    assert (made.use_case, made.share, made.until) == ("keep~1", 0.25, {"acme.visits[0]": 7})
    assert (made.module, made.digest, made.retries) == ("b.py", "2", 5)


def test_the_original_of_a_use_case_is_itself():
    assert (original("keep"), original("keep~12")) == ("keep", "keep")
