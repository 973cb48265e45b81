"""What is refused before anything starts, and how deployments are taken over."""

import shutil
import threading
import time
from contextlib import closing
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from two_use_cases import settings, write

from headrace.connectors.by_topic import open_log
from headrace.connectors.kafka import KafkaLog
from headrace.connectors.kafka.dead_letters import KafkaDeadLetters
from headrace.cycle.driver import Driver, DriverParts
from headrace.deploying.offer import deploy, load, source_of
from headrace.errors import ConfigError, StoreUnavailable
from headrace.model.streams import Tenant
from headrace.ports import Connections, Server
from headrace.running.assembly import (
    Assembly,
    assembled,
    limits_of,
    mirrors_of,
    slot_limits_of,
)
from headrace.settings import DriverSettings
from headrace.spark.engine import SparkEngine
from headrace.store import SqlPositionsFactory
from headrace.store.sql_store import SqlStore
from headrace.testing.clock import FakeClock
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.engine_fake import InProcessEngine
from headrace.testing.log_fake import MemoryLog, MemoryReaderFactory, Row


def test_sqlite_with_a_cluster_is_refused_before_anything_starts(tmp_path):
    write(tmp_path)
    with (
        pytest.raises(ConfigError, match="SQLite, which lives on one machine"),
        assembled(settings(master="spark://host:7077"), tmp_path),
    ):
        pass


def test_so_is_a_connection_that_is_a_file(tmp_path):
    write(tmp_path)
    files = {"history": {"url": "sqlite:///history.db"}}
    chosen = settings(
        master="spark://host:7077", database_url="postgresql://nobody/x", connections=files
    )
    with (
        pytest.raises(ConfigError, match="connection history is SQLite, which lives on one machin"),
        assembled(chosen, tmp_path),
    ):
        pass


class _SessionOf:
    """A Spark session as far as assembling needs one."""

    def __init__(self, master):
        self.sparkContext = self
        self.master = master
        self.stopped = False

    def stop(self):
        self.stopped = True


@pytest.mark.parametrize(
    ("master", "refused"), [("yarn", True), ("local[2]", False), ("spark://127.0.0.1:7077", False)]
)
def test_a_cluster_that_only_spark_submit_knows_counts_too(tmp_path, monkeypatch, master, refused):
    write(tmp_path)
    session = _SessionOf(master)
    monkeypatch.setattr("headrace.running.assembly.build_session", lambda *_: session)
    monkeypatch.setattr("headrace.running.assembly.collect_apart", lambda: None)
    given = {"master": None, "database_url": f"sqlite:///{tmp_path}/store.db"}
    if refused:
        with (
            pytest.raises(ConfigError, match="the master is yarn: name a PostgreSQL database"),
            assembled(settings(**given), tmp_path),
        ):
            pass
    else:
        with assembled(settings(**given), tmp_path) as made:
            assert made.engine.session is session
    assert session.stopped


class _Failed(Exception):
    """What a part is made to raise."""


def _fails(*_, **__):
    raise _Failed


@pytest.fixture
def closed(monkeypatch):
    """Names of the parts that were closed, in order; there is no Spark."""
    names = []
    session = _SessionOf("local[2]")

    def noted(name, close):
        return lambda part: (names.append(name), close(part))[1]

    for kind in (SqlStore, KafkaLog, SparkEngine, KafkaDeadLetters, Driver, _SessionOf):
        method = "stop" if kind is _SessionOf else "close"
        monkeypatch.setattr(kind, method, noted(kind.__name__, getattr(kind, method)))
    monkeypatch.setattr("headrace.running.assembly.build_session", lambda *_: session)
    monkeypatch.setattr("headrace.running.assembly.collect_apart", lambda: None)
    return names


@pytest.mark.parametrize("part", ["with_seal_key", "open_log", "build_session", "Driver"])
def test_a_part_that_cannot_be_made_leaves_none_open(tmp_path, monkeypatch, closed, part):
    write(tmp_path)
    monkeypatch.setattr(f"headrace.running.assembly.{part}", _fails)
    given = settings(master="local[2]", database_url=f"sqlite:///{tmp_path}/store.db")
    with pytest.raises(_Failed), assembled(given, tmp_path):
        pass
    assert (
        closed
        == {
            "with_seal_key": ["SqlStore"],
            "open_log": ["SqlStore"],
            "build_session": ["KafkaLog", "SqlStore"],
            "Driver": ["KafkaDeadLetters", "SparkEngine", "_SessionOf", "KafkaLog", "SqlStore"],
        }[part]
    )


def test_a_part_that_cannot_be_closed_keeps_no_other_open(tmp_path, monkeypatch, closed):
    write(tmp_path)
    given = settings(master="local[2]", database_url=f"sqlite:///{tmp_path}/store.db")
    for kind in (Driver, SparkEngine):
        monkeypatch.setattr(kind, "close", _fails)
    with pytest.raises(_Failed), assembled(given, tmp_path):
        pass
    assert closed == ["KafkaDeadLetters", "_SessionOf", "KafkaLog", "SqlStore"]


def test_leases_are_shown_where_the_settings_name_a_dynamodb_and_else_nowhere():
    servers = {"entities": Server("dynamodb://eu-central-1")}
    connections = Connections({"bootstrap.servers": "127.0.0.1:1"}, "", servers=servers)
    with closing(open_log(connections)) as log:
        for said, kinds in [
            ({}, ["GroupMirror", "NoneType"]),
            ({"mirror": False}, ["NoneType", "NoneType"]),
            ({"mirror_leases": "entities"}, ["GroupMirror", "LeaseMirror"]),
            ({"mirror": False, "mirror_leases": "entities"}, ["NoneType", "LeaseMirror"]),
        ]:
            mirrors = mirrors_of(DriverSettings.model_validate(said), connections, log)
            assert [type(mirror).__name__ for mirror in mirrors] == kinds
            for mirror in filter(None, mirrors):
                mirror.close()


def test_limits_are_as_configured():
    chosen = DriverSettings.model_validate({"bin_budget": "250ms", "slice_bytes": "1m"})
    limits = limits_of(chosen)
    assert (limits.bin_budget_s, limits.slice_bytes) == (0.25, 1024 * 1024)


def test_slots_follow_the_load_only_where_their_most_is_given():
    assert slot_limits_of(DriverSettings()) is None
    chosen = DriverSettings.model_validate({"most_slots": 8, "target_delay": "500ms"})
    limits = slot_limits_of(chosen)
    assert (limits.least, limits.most, limits.target_delay_s) == (1, 8, 0.5)
    with pytest.raises(ConfigError, match="out of order"):
        slot_limits_of(DriverSettings(most_slots=2, least_slots=3))


# --- deployments -----------------------------------------------------------------------------


def taken(made):
    """It has taken what is deployed, as far as it can."""
    made.taking.poll()
    made.taking.swap()


@pytest.fixture
def assembly(tmp_path, store):
    write(tmp_path)
    connections = Connections({}, f"sqlite:///{tmp_path}/store.db", warehouse=str(tmp_path))
    log = MemoryLog()
    letters = MemoryDeadLetters()
    engine = InProcessEngine(connections, MemoryReaderFactory(log), SqlPositionsFactory(), letters)
    driver = Driver(DriverParts(store, log, engine, letters, FakeClock()), "run")
    deploy(settings(), load(settings(), tmp_path), store.registry)
    made = Assembly(driver, store, engine, connections, 1.0, source_of(settings(), tmp_path))
    taken(made)
    return made


def test_what_runs_knows_the_warehouse_that_its_files_go_to(tmp_path, assembly):
    for use_case, _ in assembly.driver.versions.newest.values():
        assert use_case.terms.place == str(tmp_path)


def test_a_new_version_is_taken_over_and_the_other_use_case_left_alone(tmp_path, store, assembly):
    before = dict(assembly.driver.deployed)
    write(tmp_path, answer="table")
    deploy(settings(), load(settings(), tmp_path), store.registry, "one")
    taken(assembly)
    after = assembly.driver.deployed
    assert after["one"] != before["one"]
    assert after["two"] == before["two"]


def test_a_deployment_that_cannot_be_taken_leaves_the_old_version_running(
    tmp_path, store, assembly, capsys
):
    before = dict(assembly.driver.deployed)
    write(tmp_path, answer="table")
    deploy(settings(), load(settings(), tmp_path), store.registry, "one")
    write(tmp_path, answer="changed_again")
    shutil.rmtree(tmp_path / ".headrace")
    taken(assembly)
    taken(assembly)
    assert assembly.driver.deployed == before
    told = capsys.readouterr().out
    assert told.count("deployment not taken") == 1
    assert "is not the version that was deployed" in told


def test_a_use_case_that_is_gone_from_its_file_is_named(tmp_path, store, assembly, capsys):
    write(tmp_path, names=("one",))
    module = load(settings(), tmp_path)
    (old,) = [
        deployment for deployment in store.registry.deployments() if deployment.use_case == "two"
    ]
    gone = type(old)(
        **{**{name: getattr(old, name) for name in old.__slots__}, "digest": module.digest}
    )
    store.registry.deploy(gone)
    taken(assembly)
    assert "has no use case two any more" in capsys.readouterr().out


def holders(store):
    return {stream.holder for stream in store.registry.streams()}


def test_who_has_drained_gives_back_what_it_held(assembly, store):
    store.registry.add_tenant(Tenant("acme"))
    assembly.driver.turn()
    assert holders(store) == {"driver"}
    assembly.stop()
    assert assembly.run()
    assert holders(store) == {None}


def held_up_at_acme(assembly, store, *others):
    """A driver whose two waves for `acme` do not end, and its clock; others have nothing to do."""
    driver, clock = assembly.driver, assembly.driver.parts.clock
    for name in ("acme", *others):
        store.registry.add_tenant(Tenant(name))
        driver.parts.log.create_topic(f"{name}.visits")
    driver.parts.log.append("acme.visits", 0, [Row(b"1")])
    driver.parts.engine.paused = True
    for _ in range(6):
        driver.turn()
        clock.move(1.0)
    assert len(driver.board.flights) == 2
    return driver, clock


def test_a_drain_that_takes_too_long_gives_back_what_nothing_runs_of(assembly, store):
    _, clock = held_up_at_acme(assembly, store, "bolt")
    assembly.stop()
    with capture_logs() as logs:
        assert not assembly.run(lambda _: clock.move(0.4))
    assert {stream.id.tenant: stream.holder for stream in store.registry.streams()} == {
        "acme": "driver",
        "bolt": None,
    }
    (told,) = [line for line in logs if line["event"] == "streams are not given back"]
    assert (told["streams"], told["why"]) == (2, "something of them still runs, such as acme/one")


def test_who_drains_says_what_is_waited_for_and_for_how_long(assembly, store):
    driver, clock = held_up_at_acme(assembly, store)
    assembly.drain_timeout_s, ends_s = 30.0, clock.steady_s + 10.0
    assembly.stop()

    def on_turn(_):
        clock.move(1.0)
        driver.parts.engine.paused = clock.steady_s < ends_s

    with capture_logs() as logs:
        assert assembly.run(on_turn)
    begun, *waited = [line for line in logs if line["event"].endswith("what runs has ended")] + [
        line for line in logs if line["event"] == "waits for what runs"
    ]
    assert begun["seconds"] == 30.0
    assert "a second Ctrl-C" in begun["why"]
    assert [line["seconds"] for line in waited] == [27.0, 24.0, 21.0]
    assert waited[0]["why"].startswith("2 slices run: acme/one for ")
    assert "acme/two for " in waited[0]["why"]


def test_a_store_that_is_gone_at_the_end_does_not_spoil_a_clean_drain(assembly, monkeypatch):
    def gone(_):
        raise StoreUnavailable

    monkeypatch.setattr(Driver, "leave", gone)
    assembly.stop()
    assert assembly.run()


def test_a_store_that_hangs_at_the_end_keeps_no_driver_from_ending(assembly, monkeypatch):
    goes_on = threading.Event()
    monkeypatch.setattr("headrace.running.assembly._LEAVE_S", 0.1)
    monkeypatch.setattr(Driver, "leave", lambda _: goes_on.wait(20))
    assembly.stop()
    began_s = time.monotonic()
    try:
        with capture_logs() as logs:
            assert assembly.run()
        assert time.monotonic() - began_s < 15
    finally:
        goes_on.set()
    told = [line for line in logs if line["event"].startswith("leases could not be given back")]
    assert ["its lease is over" in line["why"] for line in told] == [True]


def test_a_rerun_is_taken_with_the_code_of_its_use_case_once_it_says_where_it_ends(
    tmp_path, store, assembly
):
    one = assembly.driver.deployed["one"]
    rerun = replace(one, use_case="one~1", all_tenants=False, until={})
    store.registry.deploy(rerun)
    taken(assembly)
    assert "one~1" not in assembly.driver.deployed
    store.registry.deploy(replace(rerun, until={"acme.visits[0]": 7}))
    taken(assembly)
    assert assembly.driver.deployed["one~1"].until == {"acme.visits[0]": 7}
    write(tmp_path, answer="table")
    deploy(settings(), load(settings(), tmp_path), store.registry, "one")
    taken(assembly)
    after = assembly.driver.deployed
    assert after["one~1"].digest == after["one"].digest != one.digest
    assert after["one~1"].until == {"acme.visits[0]": 7}


def test_a_rerun_that_is_over_is_not_taken_up_again(store, assembly):
    one = assembly.driver.deployed["one"]
    store.registry.deploy(replace(one, use_case="one~1", all_tenants=False, until={}))
    taken(assembly)
    assert set(assembly.driver.deployed) == {"one", "two"}
