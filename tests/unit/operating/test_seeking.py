"""A seek is looked at before the store is told."""

from dataclasses import replace

import pytest

from headrace.connectors.kafka import OFFSETS
from headrace.cycle.seek_places import StreamLog, seek_offsets, seek_target
from headrace.errors import ConfigError, LeaderUnknown, Temporary, UnknownName
from headrace.model.lane_names import named, number_of
from headrace.model.lineage import Parent
from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import Guarantee, State, Stream, StreamId, Tenant
from headrace.operating.again import consequences, is_more
from headrace.operating.repeats import repeated
from headrace.operating.seeking import (
    Shift,
    begun_again,
    carry_out,
    planned,
    planned_again,
    seek,
)
from headrace.policies.data_loss import LIST_PATIENCE_S
from headrace.ports import TopicInfo
from headrace.sinks import Email, KafkaTopic, ParquetFiles, SqlTable
from headrace.testing.log_fake import MemoryLog, Row
from headrace.testing.memory_store import MemoryStore

ACME = StreamId("score", "acme")


@pytest.fixture
def store():
    store = MemoryStore()
    store.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
    store.registry.add_tenant(Tenant("acme"))
    store.progress.start_lanes(
        [LaneStart(ACME, "topic-1", {"acme.visits[0]": 3, "acme.visits[1]": 3})]
    )
    return store


@pytest.fixture
def log():
    log = MemoryLog()
    log.create_topic("acme.visits", 2)
    assert topic_id(log) == "topic-1"
    for partition in (0, 1):
        log.append("acme.visits", partition, [Row(b"{}")] * 9)
    return log


def topic_id(log):
    return log.topics(["acme.visits"])["acme.visits"].topic_id


def offsets(store):
    return {
        number_of(position.lane.name): position.next_offset
        for position in store.progress.load_positions([ACME])
    }


@pytest.mark.parametrize(
    ("to", "there"),
    [("earliest", {0: 0, 1: 0}), ("latest", {0: 9, 1: 9}), ({1: 5}, {0: 3, 1: 5}), ({}, None)],
)
def test_a_stream_reads_next_where_it_was_sent(store, log, to, there):
    if there is None:
        with pytest.raises(ConfigError, match="no partition"):
            seek(store, log, ACME, to)
        there = {0: 3, 1: 3}
    else:
        seek(store, log, ACME, to)
    assert offsets(store) == there


@pytest.mark.parametrize("to", ["10", {0: 10}, {2: 0}, {0: 1, 1: -1}, '{"acme.visits":{"0":99}}'])
def test_nothing_is_moved_if_one_lane_cannot_be(store, log, to):
    with pytest.raises(ConfigError, match=r"holds offsets|has no partition 2"):
        seek(store, log, ACME, to)
    assert offsets(store) == {0: 3, 1: 3}


@pytest.mark.parametrize("to", ["earliest", "latest", "1970-01-01T00:00:00+00:00", "5"])
def test_nothing_is_moved_while_nobody_knows_of_one_lane(store, log, to):
    log.set_leader("acme.visits", 1, False)
    with pytest.raises(LeaderUnknown, match=r"acme.visits\[1\].* try again"):
        seek(store, log, ACME, to)
    store.registry.set_stream_state(ACME, State.REMOVED)
    with pytest.raises(LeaderUnknown):
        begun_again(store, log, [ACME])
    assert offsets(store) == {0: 3, 1: 3}


def test_a_stream_that_nobody_added_or_without_a_topic_is_refused(store, log):
    with pytest.raises(UnknownName):
        seek(store, log, StreamId("other", "acme"), "earliest")
    log.delete_topic("acme.visits")
    with pytest.raises(ConfigError, match="is its topic there"):
        seek(store, log, ACME, "earliest")


@pytest.mark.parametrize(
    ("to", "shifts"),
    [
        ("earliest", {"acme.visits[0]": Shift(3, 0, 3, 0), "acme.visits[1]": Shift(3, 0, 3, 0)}),
        ("latest", {"acme.visits[0]": Shift(3, 9, 0, 6), "acme.visits[1]": Shift(3, 9, 0, 6)}),
        (
            {"0": 1, "acme.visits[1]": 3},
            {"acme.visits[0]": Shift(3, 1, 2, 0), "acme.visits[1]": Shift(3, 3, 0, 0)},
        ),
    ],
)
def test_a_plan_says_how_much_comes_again_and_does_nothing(store, log, to, shifts):
    before = store.revision()
    plan = planned(store, log, ACME, to)
    assert plan.shifts == shifts
    assert plan.again == sum(shift.again for shift in shifts.values())
    assert plan.passed == sum(shift.passed for shift in shifts.values())
    assert (store.revision(), offsets(store)) == (before, {0: 3, 1: 3})


def test_a_plan_is_carried_out_as_it_was_shown(store, log):
    plan = planned(store, log, ACME, "latest")
    log.append("acme.visits", 0, [Row(b"{}")] * 5)
    carry_out(store.progress, plan)
    assert offsets(store) == {0: 9, 1: 9}


def test_what_kafka_lost_neither_comes_again_nor_is_passed_over(store, log):
    log.expire("acme.visits", 0, 2)
    log.expire("acme.visits", 1, 5)
    assert planned(store, log, ACME, "earliest").shifts == {
        "acme.visits[0]": Shift(3, 2, 1, 0),
        "acme.visits[1]": Shift(3, 5, 0, 0),
    }


def test_of_a_topic_that_was_made_again_nothing_was_read_before(store, log):
    made_again(log, 2)
    assert planned(store, log, ACME, "earliest").shifts == dict.fromkeys(
        ("acme.visits[0]", "acme.visits[1]"), Shift(None, 0, 0, 0)
    )
    assert planned(store, log, ACME, "4").passed == 8


def test_a_stream_that_was_removed_says_what_it_reads_again_when_it_is_added(store, log):
    assert begun_again(store, log, [ACME]) == []
    store.registry.set_stream_state(ACME, State.REMOVED)
    assert begun_again(store, log, [StreamId("score", "bolt")]) == []
    (plan,) = begun_again(store, log, [ACME])
    assert (plan.stream, plan.again, plan.passed) == (ACME, 6, 0)
    store.registry.deploy(
        Deployment("score", "score.py", "ab12", "{tenant}.visits", starting_offsets="latest")
    )
    (plan,) = begun_again(store, log, [ACME])
    assert (plan.again, plan.passed) == (0, 12)
    log.delete_topic("acme.visits")
    assert begun_again(store, log, [ACME]) == []


def test_no_guarantee_is_said_to_be_against_a_seek(store, log):
    store.registry.set_stream_state(ACME, State.SUSPENDED)
    back, ahead = (planned(store, log, ACME, to) for to in ("earliest", {0: 4}))
    (told,) = consequences([back], Guarantee.EXACTLY_ONCE)
    assert told == (
        "effects of up to 6 records of acme/score are made again; "
        "exactly-once guards against kills, not against this; what was redriven is read at its own "
        "place and at the one it was sent to, as far as both are among them"
    )
    (unknown,) = consequences([back])
    assert "every guarantee, also exactly-once" in unknown
    (passed,) = consequences([ahead], Guarantee.EXACTLY_ONCE)
    assert passed.startswith(f"no effect is made of 1 record of {ACME}")
    assert consequences([planned(store, log, ACME, {0: 3})]) == []


def test_of_a_stream_that_may_run_it_is_said_that_what_runs_is_not_committed(store, log):
    _, running = consequences([planned(store, log, ACME, "earliest")])
    assert running.startswith("what runs of acme/score now is not committed")
    assert consequences([planned(store, log, ACME, {0: 3})]) == []


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        (SqlTable("t", columns={"n": "bigint"}), "no key"),
        (SqlTable("t", columns={"n": "bigint"}, key=("n",)), "written over"),
        (
            SqlTable(
                "t", columns={"n": "bigint", "m": "bigint"}, key=("n",), update={"m": "t.m + 1"}
            ),
            "its update is made a second time",
        ),
        (
            SqlTable("t", columns={"n": "bigint", "m": "bigint"}, key=("n",), newest_by="m"),
            "as new as those there",
        ),
        (ParquetFiles("out"), "rows come a second time"),
        (KafkaTopic("out"), "sent a second time"),
        (Email(sender="a@b.example"), "sent a second time"),
        (None, "what the handler writes by itself"),
    ],
)
def test_each_sink_says_what_a_second_time_means(sink, told):
    assert told in repeated(sink)


def made_again(log, partitions):
    log.delete_topic("acme.visits")
    log.create_topic("acme.visits", partitions)
    for partition in range(partitions):
        log.append("acme.visits", partition, [Row(b"{}")] * 9)


@pytest.fixture
def halves(store, log):
    """Lane 0 is read to its end, and so are three records of lane 2, which follows it by 1."""
    log.merge("acme.visits", 0, 1)
    log.append("acme.visits", 2, [Row(b"{}")] * 5)
    log.split("acme.visits", 2)
    log.append("acme.visits", 3, [Row(b"{}")] * 4)

    def stand(*places):
        offsets = {f"acme.visits[{number}]": at for number, at in enumerate(places)}
        parents = log.topics(["acme.visits"])["acme.visits"].parents
        store.progress.seek(ACME, offsets, topic_id(log), parents)

    return stand


@pytest.mark.parametrize(
    ("to", "left"),
    [
        ({0: 4}, "2.* at 0, .*3.* at 0"),
        ({0: 4, 2: 0}, "3.* at 0"),
        ({0: 4, 2: 3, 3: 0}, "2.* at 0"),
    ],
)
def test_what_was_read_after_a_lane_is_sent_back_with_it(store, log, halves, to, left):
    halves(9, 9, 5, 1, 0)
    wanted = {str(number): at for number, at in to.items()}
    with pytest.raises(ConfigError, match=f"would count as newer .*; seek {left}"):
        planned(store, log, ACME, wanted)
    assert offsets(store) == {0: 9, 1: 9, 2: 5, 3: 1, 4: 0}
    assert seek(store, log, ACME, {"0": 4, "2": 0, "3": 0})["acme.visits[0]"] == 4


def test_nor_is_it_alone_where_nobody_can_count_how_much_that_is(store, log, halves, monkeypatch):
    halves(9, 9, 5, 1, 0)
    uncounted = replace(log.places, between=lambda _later, _place: None)
    monkeypatch.setattr(type(log), "places", uncounted)
    with pytest.raises(ConfigError, match="would count as newer"):
        planned(store, log, ACME, {"0": 4})


@pytest.mark.parametrize("to", ["earliest", "latest", {"1": 9}, {"0": 9}, {"3": 0}, {"2": 5}])
def test_what_sends_nothing_back_that_others_follow_needs_no_more(store, log, halves, to):
    halves(9, 8, 5, 1, 0)
    assert seek(store, log, ACME, to)


def test_what_nobody_has_read_yet_may_stay_where_it_is(store, log, halves):
    halves(9, 9, 0, 0, 0)
    assert seek(store, log, ACME, {"0": 4}) == {"acme.visits[0]": 4}


def test_the_store_is_told_in_which_topic_the_offsets_are(store, log):
    made_again(log, 2)
    seek(store, log, ACME, "earliest")
    assert store.registry.streams()[0].topic_id == topic_id(log) != "topic-1"


def test_of_a_topic_that_was_made_again_no_lane_keeps_an_offset_of_the_old_one(store, log):
    made_again(log, 2)
    with pytest.raises(ConfigError, match="made again; seek all of its partitions, also 1"):
        seek(store, log, ACME, {"0": 5})
    assert offsets(store) == {0: 3, 1: 3}


def test_lanes_of_partitions_that_are_gone_are_forgotten(store, log):
    made_again(log, 1)
    assert seek(store, log, ACME, "5") == {"acme.visits[0]": 5}
    assert offsets(store) == {0: 5}


def test_nor_does_it_follow_what_it_followed_in_the_old_one(store, log):
    lineage = {"acme.visits[1]": (Parent("acme.visits[0]", 9),)}
    store.progress.seek(ACME, {"acme.visits[0]": 3}, topic_id(log), lineage)
    made_again(log, 3)
    seek(store, log, ACME, {"0": 0, "1": 0})
    assert {at.parents for at in store.progress.load_positions([ACME])} == {()}


def test_a_lane_that_is_not_listed_for_a_moment_stays_when_another_is_sought(store, log):
    log.widen("acme.visits")
    log.set_listed("acme.visits", 1, listed=False)
    assert seek(store, log, ACME, {"0": 5}) == {"acme.visits[0]": 5}
    assert offsets(store) == {0: 5, 1: 3}


@pytest.mark.parametrize("to", ["latest", "earliest", {0: 5}, "5"])
def test_a_list_without_a_lane_that_was_read_sends_nobody_anywhere(store, log, to):
    log.set_listed("acme.visits", 1, listed=False)
    with pytest.raises(Temporary, match=r"acme.visits\[1\]: read before.*not whole.*try again"):
        planned(store, log, ACME, to)
    store.registry.set_stream_state(ACME, State.REMOVED)
    with pytest.raises(Temporary, match=r"acme.visits\[1\]"):
        begun_again(store, log, [ACME])
    assert offsets(store) == {0: 3, 1: 3}


@pytest.mark.parametrize("known", ["topic-1", None])
def test_lanes_of_another_topic_are_not_sought_by_one_answer(store, log, monkeypatch, known):
    made_again(log, 2)
    if known is None:
        store.progress.seek(ACME, {"acme.visits[0]": 0, "acme.visits[1]": 0})
    whole = log.topics(["acme.visits"])
    answers = [{name: replace(info, lanes=info.lanes[:1]) for name, info in whole.items()}, whole]
    monkeypatch.setattr(MemoryLog, "topics", lambda self, names: answers.pop(0))
    with pytest.raises(Temporary, match="two answers"):
        seek(store, log, ACME, {0: 0})
    answers += [whole, whole]
    assert seek(store, log, ACME, "earliest") == {"acme.visits[0]": 0, "acme.visits[1]": 0}


class Waits:
    """How long a log was asked for, and what becomes of it meanwhile."""

    def __init__(self, then=lambda: None):
        self.seconds, self.then = [], then

    def __call__(self, seconds):
        self.seconds.append(seconds)
        if len(self.seconds) == 3:
            self.then()


@pytest.fixture
def split(store, log):
    """The first lane is done, and its halves were begun."""
    halves = log.split("acme.visits", 0)
    names = ["acme.visits[0]", "acme.visits[1]", *(named("acme.visits", one) for one in halves)]
    info = log.topics(["acme.visits"])["acme.visits"]
    store.progress.seek(ACME, dict.fromkeys(names, 9) | dict.fromkeys(names[2:], 0), "topic-1")
    first = dict.fromkeys(names[2:], 0)
    store.progress.seek(ACME, first, "topic-1", info.parents)
    return log


def test_a_lane_that_may_go_is_forgotten_if_it_is_not_listed_for_a_while(store, split):
    split.drop_lane("acme.visits", 0)
    waits = Waits()
    plan = planned(store, split, ACME, "earliest", waits)
    assert (sum(waits.seconds), plan.gone) == (LIST_PATIENCE_S, {"acme.visits[0]"})
    assert "forgotten" in " ".join(consequences([plan]))
    again = planned_again(store, split, "earliest", plan, waits)
    assert (sum(waits.seconds), again.gone) == (LIST_PATIENCE_S, plan.gone), "asked for once"
    carry_out(store.progress, again)
    assert offsets(store) == {1: 0, 2: 0, 3: 0}


def test_a_lane_that_one_answer_is_without_is_not_forgotten(store, split):
    split.set_listed("acme.visits", 0, listed=False)
    waits = Waits(lambda: split.set_listed("acme.visits", 0, listed=True))
    with pytest.raises(Temporary, match="one list was without, the next one was not"):
        seek(store, split, ACME, "earliest", waits)
    assert offsets(store) == {0: 9, 1: 9, 2: 0, 3: 0}


def test_a_seek_that_only_forgets_a_lane_does_something(store, split):
    split.drop_lane("acme.visits", 0)
    plan = planned(store, split, ACME, "latest", Waits())
    stays = replace(plan, shifts={})
    assert (stays.again, stays.passed, stays.does_something) == (0, 0, True)
    assert is_more(plan, replace(plan, gone=frozenset()))
    assert not is_more(plan, plan)


def test_a_stream_is_not_sought_back_to_a_topic_that_it_left_but_by_who_stopped_it(store, log):
    store.progress.seek(ACME, {"acme.visits[0]": 0, "acme.visits[1]": 0}, "topic-2")
    with pytest.raises(
        ConfigError, match=r"made again since.*suspend the stream, seek it, and resume"
    ):
        seek(store, log, ACME, "latest")
    assert offsets(store) == {0: 0, 1: 0}
    store.registry.set_stream_state(ACME, State.SUSPENDED)
    seek(store, log, ACME, "latest")
    assert offsets(store) == {0: 9, 1: 9}


def in_json(wanted):
    return f'{{"acme.visits":{{{wanted}}}}}'


@pytest.mark.parametrize(
    "to",
    [
        "\u00b2",
        "\u0663",
        "9" * 5000,
        "9" * 78,
        "--5",
        in_json('"0":' + "9" * 5000),
        in_json('"0":"\u0663"'),
        '{"acme.visits":' * 20_000,
    ],
)
def test_what_is_no_place_is_refused_however_it_is_written(store, log, to):
    with pytest.raises(ConfigError) as refused:
        planned(store, log, ACME, to)
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("wanted", ['"0":1,"acme.visits[0]":2', '"0":1,"0":2', '"0":-1,"0":-1'])
def test_a_lane_that_is_named_twice_is_refused(store, log, wanted):
    with pytest.raises(ConfigError, match=r"0.* is named twice"):
        planned(store, log, ACME, in_json(wanted))


def test_a_place_is_read_as_a_person_writes_it(store, log):
    assert set(planned(store, log, ACME, "007").offsets.values()) == {7}
    assert planned(store, log, ACME, in_json('"0":-1')).offsets == {"acme.visits[0]": 9}


def test_a_lane_whose_name_is_a_number_can_be_said(log):
    topic = TopicInfo("topic-1", ("0", "shard-1"))
    starts, ends = {"0": 2, "shard-1": 3}, {"0": 9, "shard-1": 9}
    of = StreamLog(Stream(ACME, "acme.visits"), topic, starts, ends, OFFSETS)
    assert seek_target(log, of, in_json('"0":5')) == {"0": 5}
    assert seek_offsets(of, {"shard-1": 4}) == {"shard-1": 4}
    with pytest.raises(ConfigError, match="has no partition 1"):
        seek_offsets(of, {"1": 4})
