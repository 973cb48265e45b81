"""What an operator is told before records are read again, and what it begins."""

import json
from dataclasses import replace

import pytest

from headrace.cli import asking, reruns, streams
from headrace.cli.console import settings_and_folder
from headrace.cycle.described import described
from headrace.deploying.offer import deploy, load
from headrace.model.records import Deployment, Move
from headrace.model.state import StateChanges, StateKey, StateSize
from headrace.model.streams import LaneId, State, StreamId, Tenant
from headrace.testing.log_fake import MemoryLog, Row


@pytest.fixture(autouse=True)
def log(monkeypatch):
    """Ten records in each partition, of which the streams have read three."""
    log = MemoryLog()
    for tenant in ("acme", "bolt"):
        log.create_topic(f"{tenant}.visits", 2)
        for partition in range(2):
            log.append(f"{tenant}.visits", partition, [Row(b"x")] * 10)
    for module in (reruns, streams):
        monkeypatch.setattr(module, "log_of", lambda config: log)
    return log


def test_a_dry_run_counts_and_begins_nothing(headrace, store):
    told = headrace("rerun", "acme/score", "--from", "1", "--dry-run")
    assert told.exit_code == 0, told.output
    assert "acme/score partition 0: offsets 1..3, at most 2 records" in told.output
    assert "acme/score: at most 4 records" in told.output
    assert len(store.registry.deployments()) == 1


def test_where_a_stream_reads_several_topics_that_of_each_partition_is_named(
    headrace, log, store, monkeypatch
):
    """Also where all partitions in question are of one topic."""
    monkeypatch.setattr(asking, "log_of", lambda config: log)
    log.create_topic("acme.clicks", 1)
    topic = "acme.clicks,acme.visits"
    both = StreamId("both", "acme")
    store.registry.deploy(Deployment("both", "both.py", "ab12", topic.replace("acme", "{tenant}")))
    places = {"acme.clicks[0]": 0, "acme.visits[0]": 3, "acme.visits[1]": 0}
    store.progress.seek(both, places, described(log, [topic])[topic].topic_id)
    told = headrace("rerun", "acme/both", "--from", "earliest", "--dry-run").output
    assert "acme/both partition 0 of acme.visits: offsets 0..3" in told
    told = headrace(
        "streams", "seek", "acme/both", "--to", '{"acme.visits":{"0":1}}', "--yes"
    ).output
    assert "acme/both partition 0 of acme.visits: 3 -> 1" in told
    assert "reads next at acme.visits[0]:1" in " ".join(told.split())


def test_a_rerun_is_begun_where_it_was_told_and_ends_where_the_stream_stood(headrace, store):
    told = headrace("rerun", "acme/score", "--from", "1", "--share", "0.5", "--yes")
    assert told.exit_code == 0, told.output
    assert "headrace streams remove acme/score~1" in told.output
    _, made = store.registry.deployments()
    assert (made.use_case, made.until, made.share) == (
        "score~1",
        {"acme.visits[0]": 3, "acme.visits[1]": 3},
        1.0,
    )
    at = {position.lane: position.next_offset for position in store.progress.load_positions()}
    assert at[LaneId("score~1", "acme", "acme.visits[0]")] == 1
    assert at[LaneId("score", "acme", "acme.visits[0]")] == 3
    assert headrace("streams", "remove", "acme", "score~1", "--yes").exit_code == 0


def test_all_streams_of_a_tenant_are_meant_by_its_name(headrace, store):
    assert headrace("rerun", "acme", "--from", "earliest", "--yes").exit_code == 0
    assert [deployment.use_case for deployment in store.registry.deployments()] == [
        "score",
        "score~1",
    ]
    assert "at most" in headrace("rerun", "acme", "--from", "earliest", "--dry-run").output


ADDS = """
from headrace import use_case
from headrace.sinks import SqlTable

@use_case(
    topic="{tenant}.visits",
    sink=SqlTable("pages", columns={"page": "text", "n": "bigint"}, key=("page",),
                  update={"n": "pages.n + 1"}),
    guarantee="exactly-once",
)
def score(visits, context):
    return visits
"""
WARNINGS = (
    "effects of up to 4 records of acme/score are made again; exactly-once guards against kills",
    "table pages: its update is made a second time to the rows that are there",
)


@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--yes",)])
def test_what_is_done_a_second_time_is_told(headrace, store, config, more):
    (config.parent / "use_cases.py").write_text(ADDS)
    settings, folder = settings_and_folder(config)
    deploy(settings, load(settings, folder), store.registry)
    told = " ".join(headrace("rerun", "acme/score", "--from", "1", *more).output.split())
    assert all(warning in told for warning in WARNINGS), told


REMEMBERS = """
import pyarrow as pa
from headrace import StateTable, use_case
from headrace.sinks import SqlTable

@use_case(
    topic="{tenant}.visits",
    order="key",
    sink=SqlTable("pages", columns={"page": "text"}, key=("page",)),
    guarantee="exactly-once",
    state=[StateTable("seen", pa.schema([("who", pa.string())]), key="who")],
)
def score(visits, context):
    return visits
"""


@pytest.mark.parametrize("what", ["acme/score", "acme"])
@pytest.mark.parametrize("how", [("--dry-run",), ("--yes",), ()])
def test_what_has_state_is_not_rerun_and_why_is_told(headrace, store, config, what, how):
    (config.parent / "use_cases.py").write_text(REMEMBERS)
    settings, folder = settings_and_folder(config)
    deploy(settings, load(settings, folder), store.registry)
    told = headrace("rerun", what, "--from", "1", *how)
    said = " ".join(told.output.split())
    assert told.exit_code == 2, said
    assert "score keeps state, and there is none of where a rerun begins" in said
    assert "'headrace streams seek acme/score --to earliest --forget-state'" in said
    assert len(store.registry.deployments()) == 1


def test_where_the_code_cannot_be_had_state_is_known_by_what_is_kept(headrace, store):
    stream, lane = StreamId("score", "acme"), LaneId("score", "acme", "acme.visits[0]")
    epoch = store.membership.hold([stream])[stream]
    kept = StateChanges(lane, {StateKey("seen", b"ada"): b"{}"}, StateSize(1, 5))
    assert store.positions.advance_groups([[Move(lane, 3, 4, epoch)]], [kept]) == [True]
    assert headrace("rerun", "acme/score", "--from", "1", "--dry-run").exit_code == 2
    assert headrace("rerun", "bolt/score", "--from", "1", "--dry-run").exit_code == 0


def test_where_nobody_can_be_asked_a_rerun_is_begun_with_yes_only(headrace, store, config):
    words = ("rerun", "acme/score", "--from", "1", "--until", "2", "--share", "0.5")
    told = headrace(*words)
    assert told.exit_code == 2
    assert f"headrace {' '.join(words)} --config {config} --yes" in " ".join(told.output.split())
    assert len(store.registry.deployments()) == 1
    assert headrace(*words, "--yes").exit_code == 0
    assert len(store.registry.deployments()) == 2


def test_who_is_asked_may_say_no(headrace, store, monkeypatch):
    monkeypatch.setattr("headrace.cli.asking._can_be_asked", lambda: True)
    words = ("rerun", "acme/score", "--from", "1")
    assert headrace(*words, input="n\n").exit_code == 1
    assert len(store.registry.deployments()) == 1
    assert headrace(*words, input="y\n").exit_code == 0
    assert len(store.registry.deployments()) == 2


def test_lanes_that_become_others_while_somebody_is_asked_are_shown_and_asked_about_anew(
    headrace, store, log, monkeypatch
):
    """They would be read as older than they are by then."""
    monkeypatch.setattr("headrace.cli.asking._can_be_asked", lambda: True)
    monkeypatch.setattr("headrace.cli.asking.typer.confirm", confirm := Confirm())
    buckets = {f"acme.visits[{lane}]#{n}/2": 3 for lane in range(2) for n in range(2)}
    whole = {"acme.visits[0]", "acme.visits[1]"}
    stream = StreamId("score", "acme")
    confirm.meanwhile = lambda: store.progress.seek(stream, buckets, gone=whole)
    told = headrace("rerun", "acme/score", "--from", "1")
    assert told.exit_code == 0, told.output
    assert confirm.asked == 2
    assert "its lanes are others by now" in told.output


def test_buckets_of_a_partition_that_are_read_alike_are_told_in_one_line(headrace, store):
    buckets = {f"acme.visits[{lane}]#{n}/3": 3 + (n == lane) for lane in (0, 1) for n in range(3)}
    buckets["acme.visits[1]#1/3"] = 3
    whole = {"acme.visits[0]", "acme.visits[1]"}
    store.progress.seek(StreamId("score", "acme"), buckets, gone=whole)
    told = headrace("rerun", "acme/score", "--from", "1", "--dry-run").output.splitlines()
    assert told[:4] == [
        "acme/score partition 0, bucket 0 of 3: offsets 1..4, at most 3 records",
        "acme/score partition 0, buckets 1, 2 of 3: offsets 1..3, at most 2 records",
        "acme/score partition 1, all 3 buckets: offsets 1..3, at most 2 records",
        "acme/score: at most 5 records",
    ]


class Confirm:
    """Somebody who says yes, and something happens before the first time."""

    def __init__(self):
        self.asked, self.meanwhile = 0, None

    def __call__(self, *_, **__):
        self.asked += 1
        if self.asked == 1:
            self.meanwhile()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nobody", "--from", "earliest"), "there is no tenant nobody"),
        (("idle", "--from", "earliest"), "tenant idle has no stream"),
        (("acme/nothing", "--from", "earliest"), "no stream acme/nothing"),
        (("acme/score", "--from", "earliest", "--share", "1"), "above 0 and below 1"),
        (("acme/score", "--from", "latest"), "has read nothing between"),
        (("acme/score", "--from", "99"), "99 is not among them"),
    ],
)
def test_what_cannot_be_rerun_is_told_and_nothing_begins(headrace, store, words, why):
    store.registry.add_tenant(Tenant("idle"))
    store.registry.set_stream_state(StreamId("score", "idle"), State.REMOVED)
    told = headrace("rerun", *words)
    assert told.exit_code == 2
    assert why in " ".join(told.output.split())
    assert len(store.registry.deployments()) == 1


def lags_of(headrace):
    rows = json.loads(headrace("streams", "list", "--all", "--json").output)
    return {(row["tenant"], row["use_case"]): row["lag_records"] for row in rows}


def test_the_lag_of_a_rerun_is_to_its_end_and_nothing_when_it_is_over(headrace, store, log):
    assert headrace("rerun", "acme/score", "--from", "1", "--yes").exit_code == 0
    assert lags_of(headrace) == {
        ("acme", "score"): 14,
        ("acme", "score~1"): 4,
        ("bolt", "score"): 14,
    }
    made = next(
        deployment
        for deployment in store.registry.deployments()
        if deployment.use_case == "score~1"
    )
    store.registry.set_stream_state(
        StreamId("score~1", "acme"), State.REMOVED, "the rerun has come to its end"
    )
    store.registry.deploy(replace(made, until={}))
    log.append("acme.visits", 0, [Row(b"x")] * 5)
    assert lags_of(headrace)["acme", "score~1"] == 0
    assert lags_of(headrace)["acme", "score"] == 19


def test_a_rerun_that_is_over_leaves_the_lists_until_it_is_asked_for(headrace):
    assert headrace("rerun", "acme/score", "--from", "1", "--yes").exit_code == 0

    def listed(what, name, *words):
        return [row[name] for row in json.loads(headrace(what, "list", "--json", *words).output)]

    assert listed("use-cases", "use_case") == ["score", "score~1"]
    headrace("streams", "remove", "acme/score~1", "--yes")
    assert listed("use-cases", "use_case") == ["score"]
    assert listed("streams", "stream") == ["acme/score", "bolt/score"]
    assert "score~1" not in headrace("use-cases", "list").output
    assert listed("use-cases", "use_case", "--all") == ["score", "score~1"]
    assert "acme/score~1" in listed("streams", "stream", "--all")
    assert "score~1" in headrace("use-cases", "list", "--all").output


@pytest.mark.parametrize("is_over", [True, False])
def test_a_rerun_is_not_added_by_itself_for_nobody_would_run_it(headrace, store, is_over):
    if is_over:
        assert headrace("rerun", "acme/score", "--from", "1", "--yes").exit_code == 0
        headrace("streams", "remove", "acme/score~1", "--yes")
    told = headrace("streams", "add", "acme/score~1", "--yes")
    assert told.exit_code == 2
    assert "'headrace rerun acme/score --from earliest'" in " ".join(told.output.split())
    rerun = StreamId("score~1", "acme")
    active = [one.id for one in store.registry.streams() if one.state is State.ACTIVE]
    assert rerun not in active
