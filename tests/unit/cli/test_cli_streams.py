"""Streams as commands show them, and a seek that somebody has to agree to."""

import json
import time
from contextlib import closing
from dataclasses import replace
from uuid import UUID

import pytest
from typer.testing import CliRunner

from headrace.cli import asking, streams
from headrace.cli.app import app
from headrace.cli.console import settings_and_folder
from headrace.cli.failure_text import when
from headrace.cli.servers import folder_of, remember
from headrace.cycle.lags import StreamLag
from headrace.deploying.offer import deploy, load
from headrace.embedded.folder_lock import FolderLock
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.buckets import divided
from headrace.model.lane_names import number_of
from headrace.model.lineage import Parent
from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.state import StateChanges, StateKey, StateSize
from headrace.model.statistics import LaneFigures, WriterFigures
from headrace.model.streams import LaneId, State, Stream, StreamId, Tenant
from headrace.ports import SchemaKind
from headrace.ports.schema_subjects import NewSchema
from headrace.store import open_store
from headrace.testing.log_fake import MemoryLog, Row
from headrace.testing.statistics_contract import report_of

ACME, BOLT = StreamId("score", "acme"), StreamId("score", "bolt")
SEEK = ("streams", "seek", "acme/score", "--to")


@pytest.fixture(autouse=True)
def log(monkeypatch):
    log = MemoryLog()
    for module in (streams, asking):
        monkeypatch.setattr(module, "log_of", lambda config: log)
    return log


@pytest.fixture
def visits(log, store):
    """Nine records in each of two partitions of acme, which has read three of each."""
    log.create_topic("acme.visits", 2)
    for partition in (0, 1):
        log.append("acme.visits", partition, [Row(b"{}")] * 9)
    store.progress.seek(
        ACME,
        {"acme.visits[0]": 3, "acme.visits[1]": 3},
        log.topics(["acme.visits"])["acme.visits"].topic_id,
    )


@pytest.fixture
def terminal(monkeypatch):
    """Somebody sits there."""
    monkeypatch.setattr(asking, "_can_be_asked", lambda: True)


def offsets(store):
    return {
        number_of(position.lane.name): position.next_offset
        for position in store.progress.load_positions([ACME])
    }


@pytest.fixture
def tell(store):
    """A driver holds both streams and tells of them, a while ago; what it says of acme's."""

    def publish(ago_s=0.0, **told):
        store.membership.hold([ACME, BOLT], "one", store.membership.join("one", ["score"]))
        report = report_of("one", time.time() - ago_s, ACME, BOLT)
        well = {
            "state": "active",
            "note": "",
            "lanes": (LaneFigures("acme.visits[0]", 3, 9),),
            "retry_at_s": None,
        }
        of_acme, of_bolt = (replace(stream, **well) for stream in report.streams)
        store.statistics.publish(replace(report, streams=(replace(of_acme, **told), of_bolt)))

    return publish


def listed(headrace):
    """Each tenant's line."""
    result = headrace("streams", "list")
    assert result.exit_code == 0, result.output
    return {line.split()[0].partition("/")[0]: line for line in result.output.splitlines()}


def values(headrace):
    """Each tenant's stream, as a program is told of it."""
    result = headrace("streams", "list", "--json")
    assert result.exit_code == 0, result.output
    return {load["tenant"]: load for load in json.loads(result.output)}


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_where_no_use_case_is_deployed_an_empty_list_says_so(tmp_path, config, form):
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as empty:
        empty.registry.add_tenant(Tenant("acme"))
    words = ["streams", "list", *form, "--config", str(config)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0
    assert result.stderr.startswith("no use case is deployed, so there are no streams")
    assert "'headrace use-cases deploy'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_where_no_tenant_is_left_an_empty_list_says_so(headrace, form):
    headrace("tenants", "remove", "acme", "bolt", "--yes")
    result = headrace("streams", "list", *form)
    assert "there is no tenant, so there are no streams: 'headrace tenants add" in result.stderr


def test_a_stream_that_was_removed_alone_stays_so_over_deployments(headrace, store):
    assert headrace("streams", "remove", "acme/score", "--yes").exit_code == 0
    store.registry.deploy(Deployment("score", "score.py", "cd34", "{tenant}.visits"))
    store.registry.deploy(Deployment("other", "score.py", "cd34", "{tenant}.visits"))
    states = {str(stream.id): stream.state for stream in store.registry.streams()}
    assert states["acme/score"] is State.REMOVED
    assert {states["acme/other"], states["bolt/score"]} == {State.ACTIVE}


def test_where_one_is_deployed_nothing_is_said_of_that(headrace):
    assert headrace("streams", "list").stderr == ""


@pytest.mark.parametrize(
    ("state", "note"),
    [
        ("waiting", "topic acme.visits is not there yet"),
        ("retrying", "partition 0: SinkUnavailable: nobody there"),
        ("throttled", "held back"),
    ],
)
def test_what_the_driver_of_a_stream_tells_is_listed_with_why(headrace, tell, state, note):
    tell(state=state, note=note)
    shown = listed(headrace)
    assert f" {state} " in shown["acme"]
    assert note in shown["acme"]
    assert " active " in shown["bolt"]
    assert (found := values(headrace))["acme"]["state"] == state
    assert found["acme"]["reason"] == note
    assert (found["bolt"]["state"], found["bolt"]["reason"]) == ("active", "")


def test_when_a_stream_is_tried_again_is_listed(headrace, tell):
    at_s = float(int(time.time()) + 20)
    tell(state="retrying", note="nobody there", retry_at_s=at_s)
    assert f"next try {when(at_s)}: nobody there" in listed(headrace)["acme"]
    assert values(headrace)["acme"]["retry_at_s"] == at_s


def test_a_throttled_stream_is_listed_with_its_limit(headrace, store, tell):
    headrace("tenants", "throttle", "acme", "--records", "10")
    tell(state="throttled")
    assert "its tenant may read 10 records a second" in listed(headrace)["acme"]


def test_a_stream_that_no_driver_holds_is_not_called_active(headrace):
    shown = listed(headrace)["acme"]
    assert " not held " in shown
    assert "no driver holds it; start one that runs the use case score" in shown
    assert values(headrace)["acme"]["holder"] is None


def test_a_topic_that_was_read_for_two_tenants_before_that_was_refused_is_listed_so(
    headrace, store, monkeypatch
):
    store.registry.deploy(Deployment("odd", "m.py", "ab12", "{tenant}me.visits", all_tenants=False))
    store.registry.add_tenant(Tenant("ac"))
    with pytest.raises(ConfigError, match=r"topic acme\.visits would be of two tenants"):
        store.registry.add_stream(StreamId("odd", "ac"))
    monkeypatch.setattr("headrace.store.streams.refuse_shared", lambda *_: None)
    store.registry.add_stream(StreamId("odd", "ac"))
    shown = headrace("streams", "list").stdout
    assert "this topic is read for ac as well" in shown
    assert "this topic is read for acme as well" in shown
    told = json.loads(headrace("streams", "list", "--json").stdout)
    found = {each["stream"]: each["shared_with"] for each in told}
    assert {name: others for name, others in found.items() if others} == {
        "ac/odd": ["acme"],
        "acme/score": ["ac"],
    }


@pytest.fixture
def no_broker(log, monkeypatch):
    def away(_topics):
        raise BrokerUnavailable("no Kafka broker answers at 127.0.0.1:1")

    monkeypatch.setattr(log, "topics", away)


@pytest.mark.usefixtures("no_broker")
def test_streams_are_listed_without_a_lag_while_kafka_does_not_answer(headrace, tell):
    tell(state="waiting", note="Kafka does not answer")
    result = headrace("streams", "list", "--tenant", "acme")
    assert result.exit_code == 0, result.output
    _heading, line = result.stdout.splitlines()
    assert line.split()[:4] == ["acme/score", "acme.visits", "waiting", "-"]
    assert "0:3, 1:3" in line
    assert "Kafka does not answer" in line
    assert result.stderr == "no lag is known; no Kafka broker answers at 127.0.0.1:1\n"


@pytest.mark.usefixtures("visits")
def test_a_program_is_told_what_a_partition_passed_over_until_it_goes_on(headrace, store):
    stream, lane = StreamId("score", "acme"), LaneId("score", "acme", "acme.visits[0]")
    (epoch,) = store.membership.hold([stream]).values()
    assert values(headrace)["acme"]["passed_over"] == {}
    epoch = store.progress.pass_over(stream, [Move(lane, 3, 5, epoch)], [])
    assert values(headrace)["acme"]["passed_over"] == {"0": ["3", "5"]}
    assert store.positions.advance([Move(lane, 5, 6, epoch)]) == [True]
    assert values(headrace)["acme"]["passed_over"] == {}


@pytest.mark.usefixtures("no_broker")
def test_a_program_is_told_no_lag_while_kafka_does_not_answer(headrace, tell):
    tell()
    result = headrace("streams", "list", "--json")
    assert result.exit_code == 0, result.output
    assert {row["tenant"]: row["lag_records"] for row in json.loads(result.stdout)} == {
        "acme": None,
        "bolt": None,
    }
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("no_broker")
def test_where_kafka_is_that_of_up_it_is_said_how_up_stands(headrace, config):
    config.write_text(config.read_text().partition("kafka:")[0])
    remember(folder_of(config.parent), {"bootstrap.servers": "127.0.0.1:1"})
    told = headrace("streams", "list").stderr
    assert told.endswith("'headrace up' does not run here now: type 'headrace up', and try again\n")
    assert len(told.splitlines()) == 1


@pytest.mark.usefixtures("visits")
def test_a_topic_that_is_there_now_is_not_said_to_be_missing(headrace, tell):
    word = "topic acme.visits is not there yet; 'headrace topics create score' makes it"
    tell(state="waiting", note=word)
    shown = listed(headrace)["acme"]
    assert "0:3, 1:3" in shown
    assert "is not there yet" not in shown
    assert "is there now; the driver looks again by itself" in shown


def test_while_up_starts_a_stream_that_nobody_holds_is_not_said_to_need_one(headrace, config, tell):
    with FolderLock(folder_of(config.parent)):
        shown = listed(headrace)["acme"]
        assert " not held " in shown
        assert "no driver holds it yet; 'headrace up' is starting here, since 20" in shown
        assert "start one" not in shown
        tell()
        assert " active " in listed(headrace)["acme"]


def test_once_a_driver_of_up_tells_it_is_not_called_starting(headrace, config, store):
    with FolderLock(folder_of(config.parent)):
        store.statistics.publish(replace(report_of("one", time.time()), streams=()))
        assert "start one that runs the use case score" in listed(headrace)["acme"]


def test_of_a_silent_driver_it_is_told_how_old_its_word_is(headrace, tell):
    tell(ago_s=200.0, state="retrying", note="nobody there")
    shown = listed(headrace)["acme"]
    assert " unknown " in shown
    assert "driver one holds it, and the last word about it is 20" in shown
    assert "(retrying: nobody there)" in shown
    assert time.time() - values(headrace)["acme"]["told_at_s"] >= 200.0


def test_stopped_lanes_are_listed_with_the_first_and_what_shows_them(headrace, fail, tell):
    fail()
    fail(partition=1, message="no XML")
    tell(state="suspended 2/3", note="partition 0: HandlerError: no JSON")
    shown = listed(headrace)["acme"]
    assert " suspended 2/3 " in shown
    assert "2 lanes stopped, the first at HandlerError: no JSON; see 'headrace quar" in shown
    assert shown.count("no JSON") == 1
    headrace("streams", "resume", "acme", "score")
    assert values(headrace)["acme"]["state"] == "active"
    assert values(headrace)["acme"]["reason"] == ""


def test_why_a_stream_is_suspended_is_noted_too(headrace, fail):
    fail(stop_use_case=True)
    shown = listed(headrace)
    assert "use case stopped by acme/score" in shown["acme"]
    assert "1 lane stopped" in shown["acme"]
    assert "use case stopped by a failure of another tenant" in shown["bolt"]
    assert "lane stopped" not in shown["bolt"]


def test_a_stream_is_not_called_active_while_its_tenant_is_suspended(headrace):
    headrace("tenants", "suspend", "acme")
    headrace("streams", "suspend", "acme", "score")
    said = headrace("streams", "resume", "acme", "score").output
    assert "its tenant acme is suspended" in said
    assert "'headrace tenants resume acme'" in said
    shown = values(headrace)["acme"]
    assert (shown["state"], "headrace tenants resume acme" in shown["reason"]) == (
        "suspended",
        True,
    )
    said = headrace("tenants", "resume", "acme").output
    assert "stays suspended" not in said
    assert "is active" in headrace("streams", "resume", "acme", "score").output


def test_to_resume_a_tenant_names_its_streams_that_stay_suspended(headrace, fail):
    fail(stop_use_case=True)
    said = headrace("tenants", "resume", "acme").output
    assert "its stream acme/score stays suspended (use case stopped by acme/score" in said
    assert "'headrace streams resume acme/score' lets it go on" in said
    assert "bolt" not in said


@pytest.mark.usefixtures("visits")
def test_of_buckets_people_are_told_of_the_least_and_programs_of_all(headrace, store):
    parts = divided("acme.visits[0]", 3)
    places = dict(zip(parts, [5, 4, 6], strict=True)) | {"acme.visits[1]": 9}
    store.progress.seek(ACME, places, None, {}, ["acme.visits[0]"])
    line = listed(headrace)["acme"]
    assert "about 4" in line  # 4, 5 and 3 places, of which each has a third
    assert "0:4, 1:9, the least of 3 buckets" in line
    told = values(headrace)["acme"]
    assert told["positions"] == {"0#0/3": "5", "0#1/3": "4", "0#2/3": "6", "1": "9"}


@pytest.mark.usefixtures("visits", "terminal")
@pytest.mark.parametrize(("typed", "there"), [("y\n", 0), ("n\n", 3), ("", 3)])
def test_a_seek_counts_and_asks_first(headrace, store, typed, there):
    result = headrace(*SEEK, "earliest", input=typed)
    assert "acme/score partition 0: 3 -> 0, 3 offsets read again" in result.output
    assert "effects of up to 6 records of acme/score are made again" in result.output
    assert "exactly-once, guards against kills, not against this" in result.output
    assert offsets(store) == {0: there, 1: there}
    assert (result.exit_code == 0) == (there == 0)


@pytest.mark.usefixtures("visits", "terminal")
def test_what_comes_of_it_is_told_of_what_runs_whatever_lies_in_the_folder(headrace, config):
    source = (
        "from headrace import use_case\nfrom headrace.sinks import Email, ParquetFiles\n"
        "print('loading the model')\n"
        '@use_case(topic="{tenant}.visits", sink=SINK)\n'
        "def score(table, context):\n    return table\n"
    )
    file = config.parent / "use_cases.py"
    file.write_text(source.replace("SINK", 'ParquetFiles("p")'))
    assert headrace("use-cases", "deploy", "--no-wait").exit_code == 0
    file.write_text(source.replace("SINK", "None"))
    result = headrace(*SEEK, "earliest", input="n\n")
    assert "files: rows come a second time" in result.output
    assert "loading the model" not in result.stdout


@pytest.mark.usefixtures("visits", "terminal")
@pytest.mark.parametrize("typed", ["y\nn\n", "y\ny\n"])
def test_a_seek_that_is_more_when_it_is_agreed_to_is_counted_and_asked_about_anew(
    headrace, store, monkeypatch, typed
):
    confirmed = asking.confirm

    def meanwhile(*words):
        confirmed(*words)
        epoch = store.progress.load_positions([ACME])[0].epoch
        store.positions.advance([Move(LaneId(*ACME, "acme.visits[0]"), 3, 9, epoch)])

    monkeypatch.setattr(asking, "confirm", meanwhile)
    result = headrace(*SEEK, "earliest", input=typed)
    assert "effects of up to 6 records" in result.output
    assert "it is more by now:\nacme/score partition 0: 9 -> 0, 9 offsets" in result.output
    assert "effects of up to 12 records" in result.output
    assert offsets(store) == ({0: 9, 1: 3} if typed == "y\nn\n" else {0: 0, 1: 0})


@pytest.mark.usefixtures("visits", "terminal")
@pytest.mark.parametrize("typed", ["y\nn\n", "y\ny\n"])
def test_a_seek_whose_lanes_became_others_while_it_was_asked_about_is_asked_about_anew(
    headrace, store, log, monkeypatch, typed
):
    confirmed, half = asking.confirm, "acme.visits[2]"

    def meanwhile(*words):
        confirmed(*words)
        if not log.is_sealed("acme.visits", 0):
            log.split("acme.visits", 0)
            parents = log.topics(["acme.visits"])["acme.visits"].parents
            start = LaneStart(ACME, log.id_of("acme.visits"), {half: 0}, None, parents)
            store.progress.start_lanes([start])

    monkeypatch.setattr(asking, "confirm", meanwhile)
    result = headrace(*SEEK, "earliest", input=typed)
    assert "its lanes are others by now:\n" in result.output
    assert "partition 3: no position -> 0" in result.output
    agreed = typed == "y\ny\n"
    assert offsets(store) == ({0: 0, 1: 0, 2: 0, 3: 0} if agreed else {0: 3, 1: 3, 2: 0})
    followed = {at.lane.name: at.parents for at in store.progress.load_positions([ACME])}
    assert followed[half] == (Parent("acme.visits[0]", 9),)


@pytest.mark.usefixtures("visits")
def test_where_nobody_can_be_asked_nothing_is_sought_and_the_command_is_told(
    headrace, store, config
):
    result = headrace(*SEEK, "latest")
    assert result.exit_code == 2
    said = f"headrace streams seek acme/score --to latest --config {config} --yes"
    assert said in result.output
    assert "no effect is made of up to 12 records of acme/score" in result.output
    assert offsets(store) == {0: 3, 1: 3}
    assert headrace(*SEEK, "latest", "--yes").exit_code == 0
    assert offsets(store) == {0: 9, 1: 9}


@pytest.mark.usefixtures("visits")
def test_a_dry_run_only_counts(headrace, store):
    result = headrace(*SEEK, "earliest", "--dry-run")
    assert result.exit_code == 0
    assert "up to 6 records" in result.output
    assert offsets(store) == {0: 3, 1: 3}


@pytest.mark.usefixtures("visits")
def test_only_a_seek_that_is_done_waits_until_the_log_was_asked_for_long_enough(
    headrace, monkeypatch
):
    waits, planned = [], streams.planned

    def planning(*args):
        waits.append(args[-1])
        return planned(*args)

    monkeypatch.setattr(streams, "planned", planning)
    for how in ("--dry-run", "--yes"):
        assert headrace(*SEEK, "earliest", how).exit_code == 0
    assert [wait is time.sleep for wait in waits] == [False, True]


@pytest.mark.usefixtures("visits")
def test_a_seek_to_where_it_stands_is_no_question(headrace, store, fail):
    fail()
    result = headrace(*SEEK, "3")
    assert result.exit_code == 0, result.output
    assert "nothing read again" in result.output
    assert store.failures.every(only_open=True) == []


@pytest.mark.usefixtures("visits")
def test_to_forget_state_is_a_question_also_where_no_lane_moves(headrace):
    result = headrace(*SEEK, "3", "--forget-state")
    said = " ".join(result.output.split())
    assert result.exit_code == 2
    assert "what acme/score remembers of the keys of these partitions is gone then" in said
    assert "nothing is done: nobody can be asked here" in said
    assert headrace(*SEEK, "3", "--forget-state", "--yes").exit_code == 0


@pytest.fixture
def buckets(store, visits):
    """The first partition of acme is divided into four; one of them is not as far as the others."""
    parts = divided("acme.visits[0]", 4)
    places = dict(zip(parts, [5, 5, 4, 5], strict=True)) | {"acme.visits[1]": 3}
    store.progress.seek(ACME, places, None, {}, ["acme.visits[0]"])


@pytest.mark.usefixtures("buckets")
def test_buckets_of_a_partition_that_move_alike_are_told_in_one_line(headrace):
    result = headrace(*SEEK, "earliest", "--yes")
    told = [line for line in result.output.splitlines() if " -> " in line]
    assert told == [
        "acme/score partition 0, buckets 0, 1, 3 of 4: 5 -> 0, 5 offsets read again",
        "acme/score partition 0, bucket 2 of 4: 4 -> 0, 4 offsets read again",
        "acme/score partition 1: 3 -> 0, 3 offsets read again",
    ]
    assert "stream acme/score reads next at 0:0, 1:0\n" in result.output
    result = headrace(*SEEK, "latest", "--dry-run")
    told = [line for line in result.output.splitlines() if " -> " in line]
    assert told[0] == "acme/score partition 0, all 4 buckets: 0 -> 9, 9 offsets passed over"
    assert len(told) == 2
    headrace("streams", "remove", "acme/score", "--yes")
    result = headrace("streams", "add", "acme/score", "--yes")
    assert [line for line in result.output.splitlines() if "all 4 buckets" in line]
    assert "bucket 1 of 4" not in result.output


@pytest.mark.usefixtures("buckets")
def test_of_a_part_of_its_buckets_a_seek_says_which_it_moved(headrace):
    one = headrace(*SEEK, '{"acme.visits":{"0#1/4":7}}', "--yes")
    assert one.exit_code == 0, one.output
    assert "stream acme/score reads next at 0#1/4:7\n" in one.output


@pytest.fixture
def remembered(store):
    """Acme keeps state in the first of its partitions."""
    epoch = store.membership.hold([ACME])[ACME]
    lane = LaneId(*ACME, "acme.visits[0]")
    kept = StateChanges(lane, {StateKey("seen", b"ada"): b"{}"}, StateSize(1, 5))
    assert store.positions.advance_groups([[Move(lane, 3, 4, epoch)]], [kept]) == [True]


@pytest.mark.usefixtures("visits", "remembered", "terminal")
@pytest.mark.parametrize("how", [("--dry-run",), ("--yes",), ()])
def test_that_state_keeps_a_stream_from_going_back_is_told_before_anything_is_asked(
    headrace, store, how
):
    result = headrace(*SEEK, "earliest", *how, input="y\n")
    assert "acme/score partition 0: 4 -> 0, 4 offsets read again" in result.output
    assert "seek with --forget-state" in " ".join(result.output.split())
    assert "Go on?" not in result.output
    assert (result.exit_code, offsets(store)) == (2, {0: 4, 1: 3})


@pytest.mark.usefixtures("visits", "remembered")
def test_a_dry_run_says_what_becomes_of_state(headrace, store):
    gone = "what acme/score remembers of the keys of these partitions is gone then"
    result = headrace(*SEEK, "earliest", "--forget-state", "--dry-run")
    assert (result.exit_code, gone in " ".join(result.output.split())) == (0, True)
    later = headrace(*SEEK, "latest", "--dry-run")
    assert (later.exit_code, "is gone" in later.output) == (0, False)
    assert store.kept_state.parts(ACME) == {"acme.visits[0]"}


@pytest.mark.usefixtures("visits")
def test_where_an_application_stands_is_told_by_its_table_of_leases(headrace, store, monkeypatch):
    result = headrace(*SEEK, "LEASES entities:my-app", "--yes")
    assert result.exit_code != 0
    assert "is a topic of Kafka, of which no table has leases" in " ".join(result.output.split())
    asked = []

    def by_its_table(_store, _log, connections, stream, to):
        asked.append((connections.servers, stream, to))
        return {"acme.visits[0]": 5, "acme.visits[1]": 7}

    monkeypatch.setattr(streams, "lease_places", by_its_table)
    result = headrace(*SEEK, "LEASES entities:my-app", "--yes")
    assert result.exit_code == 0, result.output
    assert asked == [({}, ACME, "LEASES entities:my-app")]
    assert offsets(store) == {0: 5, 1: 7}


@pytest.mark.usefixtures("visits")
def test_what_it_means_for_the_sink_is_said_where_the_use_case_is_known(headrace, config, store):
    (config.parent / "use_cases.py").write_text(
        "from headrace import use_case\n"
        "from headrace.sinks import SqlTable\n"
        "@use_case(topic='{tenant}.visits', guarantee='exactly-once',\n"
        "          sink=SqlTable('scores', columns={'n': 'bigint'}))\n"
        "def score(table, context): return table\n"
    )
    settings, folder = settings_and_folder(config)
    deploy(settings, load(settings, folder), store.registry)
    result = headrace(*SEEK, "earliest", "--dry-run")
    assert "made again; exactly-once guards against kills, not against this" in result.output
    assert "table scores has no key: its rows come a second time" in result.output


@pytest.mark.usefixtures("visits")
@pytest.mark.parametrize("what", ["tenants", "streams"])
def test_to_add_what_was_removed_counts_what_is_read_again_and_asks(headrace, store, what):
    words = ("acme",) if what == "tenants" else ("acme/score",)
    assert headrace(what, "remove", *words, "--yes").exit_code == 0
    result = headrace(what, "add", *words)
    assert result.exit_code == 2
    assert "effects of up to 6 records of acme/score are made again" in result.output
    assert f"headrace {what} add {' '.join(words)} --config" in result.output
    assert "--yes" in result.output
    assert (
        next(stream.state for stream in store.registry.streams() if stream.id == ACME)
        is State.REMOVED
    )
    assert headrace(what, "add", *words, "--yes").exit_code == 0
    assert offsets(store) == {}


@pytest.mark.usefixtures("visits")
def test_the_command_that_is_told_adds_the_tenant_as_it_was_typed(headrace, store):
    headrace("tenants", "remove", "acme", "--yes")
    typed = ("--weight", "2", "--bytes", "64k", "--burst", "250ms")
    told = headrace("tenants", "add", "acme", *typed).output
    command = told[told.index("headrace tenants add") :].split()[1:]
    assert headrace(*command[: command.index("--config")], "--yes").exit_code == 0
    acme = store.registry.tenants()[0]
    assert (acme.weight, acme.throttle.bytes_per_s, acme.throttle.burst_s) == (2.0, 65536.0, 0.25)


def test_to_add_what_was_removed_with_yes_needs_no_kafka(headrace, log, store):
    headrace("tenants", "remove", "acme", "--yes")
    log.down = True
    assert headrace("tenants", "add", "acme").exit_code not in (0, 2)
    assert headrace("tenants", "add", "acme", "--yes").exit_code == 0


@pytest.mark.usefixtures("visits", "terminal")
def test_a_tenant_is_removed_when_somebody_agrees_to_what_is_lost_and_left_unread(headrace, store):
    refused = headrace("tenants", "remove", "acme", input="n\n")
    assert refused.exit_code == 1
    assert "12 records of acme/score not read yet" in refused.output
    assert (
        "lost: the positions, state of keys, weight, throttle and API keys of acme"
        in refused.output
    )
    assert "kept: its topics" in refused.output
    assert store.registry.tenants()[0].state is State.ACTIVE
    assert "acme is removed" in headrace("tenants", "remove", "acme", input="y\n").output
    assert store.registry.tenants()[0].state is State.REMOVED
    again = headrace("tenants", "remove", "acme")
    assert (again.exit_code, "lost" in again.output) == (0, False)


@pytest.mark.usefixtures("visits", "terminal")
def test_a_stream_is_removed_when_somebody_agrees_to_what_is_lost_and_left_unread(headrace, store):
    refused = headrace("streams", "remove", "acme/score", input="n\n")
    assert refused.exit_code == 1
    told = " ".join(refused.output.split())
    assert "12 records of acme/score not read yet" in told
    assert "of bolt" not in told
    assert "lost: the positions and state of keys of acme/score; added again" in told
    assert "'headrace streams suspend acme/score'" in told
    assert state_of(store) is State.ACTIVE
    assert "is removed" in headrace("streams", "remove", "acme/score", input="y\n").output
    assert state_of(store) is State.REMOVED
    again = headrace("streams", "remove", "acme/score")
    assert (again.exit_code, "lost" in again.output) == (0, False)


def test_where_nobody_can_be_asked_a_stream_is_removed_with_yes_only(headrace, log, store):
    log.down = True
    refused = headrace("streams", "remove", "acme", "score")
    assert refused.exit_code == 2
    assert "Kafka does not answer" in refused.output
    assert "headrace streams remove acme/score --config" in " ".join(refused.output.split())
    assert state_of(store) is State.ACTIVE
    assert headrace("streams", "remove", "acme", "score", "--yes").exit_code == 0
    assert state_of(store) is State.REMOVED


def state_of(store) -> State:
    return next(stream.state for stream in store.registry.streams() if stream.id == ACME)


@pytest.mark.usefixtures("visits")
@pytest.mark.parametrize("what", [("tenants", "remove", "acme"), ("streams", "remove", ACME)])
def test_what_waits_in_buckets_is_told_as_the_guess_that_it_is(headrace, store, what):
    places = dict.fromkeys(divided("acme.visits[0]", 3), 3)
    store.progress.seek(ACME, places | {"acme.visits[1]": 3}, None, {}, ["acme.visits[0]"])
    refused = headrace(*map(str, what))
    assert "about 12 records of acme/score not read yet" in " ".join(refused.output.split())


@pytest.mark.usefixtures("visits")
@pytest.mark.parametrize("alone", [0, 1])
def test_what_waits_in_a_partition_without_a_leader_nobody_knows(headrace, log, alone):
    def lag():
        rows = json.loads(headrace("streams", "list", "--json").output)
        return next(row["lag_records"] for row in rows if row["stream"] == "acme/score")

    assert lag() == 12
    log.set_leader("acme.visits", alone, False)
    assert lag() is None
    refused = headrace("tenants", "remove", "acme")
    said = (
        "how many records of acme/score are not read yet, nobody knows: partitions have no leader"
    )
    assert said in " ".join(refused.output.split())
    log.set_leader("acme.visits", 1 - alone, False)
    assert lag() is None


def test_a_rerun_waits_for_its_own_partitions_alone(log):
    log.create_topic("acme.visits", 3)
    log.append("acme.visits", 1, [Row(b"{}")] * 9)
    rerun = StreamId("score@again", "acme")
    stream = Stream(rerun, "acme.visits", State.ACTIVE)
    topic = log.topics(["acme.visits"])["acme.visits"]
    other, ours, _ = topic.lanes

    def lag(until, ends):
        starts = dict.fromkeys(topic.lanes, 0)
        at = {ours: 3}
        held = StreamLag(stream, State.ACTIVE, at, ends, starts, topic, until, log.places)
        return held.lag_records

    assert lag({ours: 5}, {ours: 9}) == 2
    assert lag({other: 5, ours: 5}, {ours: 9}) is None
    assert lag({}, {}) == 0


def test_where_nobody_can_be_asked_a_tenant_is_removed_with_yes_only(headrace, log, store):
    log.down = True
    refused = headrace("tenants", "remove", "acme")
    assert refused.exit_code == 2
    assert "Kafka does not answer" in refused.output
    assert "headrace tenants remove acme" in refused.output
    assert store.registry.tenants()[0].state is State.ACTIVE
    assert headrace("tenants", "remove", "acme", "--yes").exit_code == 0
    assert store.registry.tenants()[0].state is State.REMOVED
    assert headrace("tenants", "remove", "nobody").exit_code == 2


def test_a_topic_is_shown_as_it_is(headrace, store):
    store.registry.deploy(Deployment("keep", "keep.py", "ab12", "[/x].{tenant}"))
    assert "[/x].acme" in headrace("streams", "list").output


# --- how a stream is named --------------------------------------------------------------------


@pytest.mark.parametrize("typed", [("acme/score",), ("acme", "score")])
@pytest.mark.parametrize("what", ["suspend", "resume", "remove"])
def test_a_stream_is_typed_as_it_is_shown_or_in_two_words(headrace, what, typed):
    agreed = ["--yes"] if what == "remove" else []
    result = headrace("streams", what, *typed, *agreed)
    assert result.exit_code == 0, result.output
    assert "stream acme/score is" in result.output


@pytest.mark.parametrize("typed", [("acme/score",), ("acme", "score")])
@pytest.mark.usefixtures("visits")
def test_a_stream_is_sought_and_added_again_by_either_way_to_name_it(headrace, typed):
    result = headrace("streams", "seek", *typed, "--to", "latest", "--yes")
    assert "stream acme/score reads next at" in result.output
    headrace("streams", "remove", *typed, "--yes")
    assert "stream acme/score added" in headrace("streams", "add", *typed, "--yes").output


@pytest.mark.parametrize("what", ["suspend", "resume", "remove", "add"])
@pytest.mark.parametrize("typed", [("acme",), ("acme/score", "score"), ("/score",), ("a/b/c",)])
def test_what_is_no_stream_is_told_how_to_write_one(headrace, what, typed):
    result = headrace("streams", what, *typed)
    assert result.exit_code == 2
    assert "write TENANT/USE-CASE, such as acme/score" in result.output


# --- which streams are listed -----------------------------------------------------------------


def names(headrace, *words):
    result = headrace("streams", "list", *words, "--json")
    assert result.exit_code == 0, result.output
    return [row["stream"] for row in json.loads(result.output)]


def test_streams_are_listed_by_tenant_by_use_case_and_by_state(headrace, store, fail, tell):
    store.registry.deploy(Deployment("keep", "keep.py", "ab12", "{tenant}.visits"))
    headrace("streams", "suspend", "bolt/keep")
    fail()
    tell(state="suspended 1/2")
    assert names(headrace) == ["acme/keep", "bolt/keep", "acme/score", "bolt/score"]
    assert names(headrace, "--tenant", "acme") == ["acme/keep", "acme/score"]
    assert names(headrace, "--use-case", "score") == ["acme/score", "bolt/score"]
    both = ("--use-case", "score", "--use-case", "keep")
    assert names(headrace, *both) == names(headrace), "each that is named, not the last alone"
    assert names(headrace, "--tenant", "acme", "--use-case", "keep") == ["acme/keep"]
    assert names(headrace, "--state", "suspended") == ["bolt/keep", "acme/score"]
    for shown in ("suspended 1/2", "suspended-1/2"):
        assert names(headrace, "--state", shown) == ["acme/score"], "as it is shown"
    assert names(headrace, "--state", "suspended 2/2") == []
    assert names(headrace, "--state", "not-held") == names(headrace, "--state", "Not held")
    assert names(headrace, "--state", "not-held", "--state", "active") == [
        "acme/keep",
        "bolt/score",
    ]
    assert "acme/keep" in headrace("streams", "list").output


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--tenant", "amce"), "there is no tenant amce; 'headrace tenants list --all'"),
        (("--use-case", "scroe"), "there is no use case scroe; 'headrace use-cases list --all'"),
        (("--state", "stopped"), "--state stopped: a stream is shown as active, throttled"),
        (("--state", "active 1/2"), "--state active 1/2: a stream is shown as active, throttled"),
    ],
)
def test_a_filter_that_names_nothing_is_no_empty_list(headrace, words, told):
    result = headrace("streams", "list", *words)
    assert result.exit_code == 2
    assert told in result.output


@pytest.mark.parametrize("suspended", [False, True])
def test_removed_streams_leave_the_list_until_they_are_asked_for(headrace, suspended):
    headrace("streams", "remove", "acme/score", "--yes")
    if suspended:
        headrace("tenants", "suspend", "acme")
    assert names(headrace) == ["bolt/score"]
    assert names(headrace, "--all") == ["acme/score", "bolt/score"]
    assert names(headrace, "--state", "removed") == ["acme/score"]
    headrace("tenants", "remove", "bolt", "--yes")
    assert names(headrace) == []
    assert "acme" not in headrace("streams", "list").output


def test_of_streams_that_are_not_asked_for_kafka_is_asked_nothing(headrace, log, monkeypatch):
    asked = []
    monkeypatch.setattr(log, "topics", lambda names: asked.extend(names) or {})
    names(headrace, "--tenant", "bolt")
    headrace("streams", "remove", "acme/score", "--yes")
    names(headrace)
    assert asked == ["bolt.visits", "bolt.visits"]


def test_a_program_is_told_by_which_schemas_records_of_the_last_hour_were_written(headrace, tell):
    now_s = time.time()
    tell(writers=(WriterFigures("value", "100001", 5, now_s - 9, now_s - 2),))
    (schema,) = values(headrace)["acme"]["schemas"]
    assert (schema["schema_id"], schema["records"]) == ("100001", 5)
    assert (schema["subject"], schema["version"]) == (None, None)
    assert values(headrace)["bolt"]["schemas"] == []


def test_where_drivers_ask_another_registry_ids_have_no_name_of_ours(headrace, tell, store, config):
    subjects = store.schema_subjects
    new = NewSchema(SchemaKind.AVRO, '"long"', b'"long"', UUID(int=1))
    made = subjects.register(subjects.seen("acme.visits-value"), new)
    now_s = time.time()
    tell(writers=(WriterFigures("value", str(made.id), 5, now_s - 9, now_s - 2),))

    def told():
        (schema,) = values(headrace)["acme"]["schemas"]
        return schema["schema_id"], schema["subject"], schema["version"]

    ours = (str(made.id), "acme.visits-value", 1)
    assert told() == ours
    text = config.read_text()
    for url, expected in (
        ("http://127.0.0.1:18082", (str(made.id), None, None)),
        ("http://127.0.0.1:8081", ours),
        ("${NOT_SET}", (str(made.id), None, None)),
    ):
        config.write_text(f"{text}registry: {{schema.registry.url: '{url}'}}\n")
        assert told() == expected
