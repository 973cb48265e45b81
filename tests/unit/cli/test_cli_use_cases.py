"""A use case that a failure stopped goes on with one command; deployments carry the settings."""

import io
import json
import os
import re
import threading
import time
from dataclasses import replace

import pytest
from rich.console import Console
from typer.testing import CliRunner

from headrace.cli import up as up_command
from headrace.cli import use_cases
from headrace.cli.app import app
from headrace.cli.servers import folder_of
from headrace.deploying.offer import deploy as deploy_into
from headrace.embedded.folder_lock import holder
from headrace.errors import ConfigError
from headrace.model.records import Answer, FailureState
from headrace.model.restarts import Restart
from headrace.model.statistics import Report
from headrace.model.streams import BadRecordPolicy, State, StreamId, Tenant
from headrace.store import open_store

SOURCE = """\
from headrace import use_case
from headrace.sinks import ParquetFiles

@use_case(topic="{tenant}.pages", sink=ParquetFiles("p"), bad_record="fail",
          restart="latest", restart_after_s=60)
def pages(table, context):
    return table
"""
SETTINGS = """\
use_cases:
  pages: {retries: 0, handler_timeout: 500ms, max_rate_per_lane: 2.5, data_loss: skip}
"""
SAYS_OTHERWISE = "restart: latest, restart_after: 5m, max_age: 30s"


def test_a_use_case_stopped_by_a_failure_is_resumed_for_all_but_those_suspended_by_hand(
    headrace, fail, store
):
    store.registry.set_stream_state(StreamId("score", "bolt"), State.SUSPENDED)
    number = fail(stop_use_case=True)
    assert {stream.state for stream in store.registry.streams()} == {State.SUSPENDED}
    assert "streams of score resumed: 1" in headrace("use-cases", "resume", "score").output
    states = {stream.id.tenant: stream.state for stream in store.registry.streams()}
    assert states == {"acme": State.ACTIVE, "bolt": State.SUSPENDED}
    assert store.failures.one(number).state is FailureState.RETRIED


def test_an_unknown_use_case_is_told(headrace):
    result = headrace("use-cases", "resume", "nobody")
    assert result.exit_code == 2
    assert "no use case nobody" in result.output


def test_what_decorator_and_yaml_say_about_failures_is_deployed(headrace, config, store):
    (config.parent / "use_cases.py").write_text(SOURCE)
    config.write_text(config.read_text() + SETTINGS)
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 0, result.output
    (pages,) = [
        deployment for deployment in store.registry.deployments() if deployment.use_case == "pages"
    ]
    assert pages.bad_record is BadRecordPolicy.FAIL
    assert (pages.retries, pages.handler_timeout_s, pages.max_rate_per_lane) == (0, 0.5, 2.5)
    assert pages.data_loss == "skip"
    assert pages.restart == Restart(60.0)
    assert "nothing changed" in headrace("use-cases", "deploy").output
    config.write_text(config.read_text().replace("data_loss: skip", SAYS_OTHERWISE))
    assert headrace("use-cases", "deploy").exit_code == 0
    (pages,) = [one for one in store.registry.deployments() if one.use_case == "pages"]
    assert pages.restart == Restart(300.0, 30.0)


def test_a_refused_deploy_says_what_runs_on(headrace, config):
    file = config.parent / "use_cases.py"
    file.write_text(SOURCE)
    assert headrace("use-cases", "deploy").exit_code == 0
    file.write_text(SOURCE + "x = (\n")
    refused = headrace("use-cases", "deploy")
    assert refused.exit_code == 2
    assert "nothing is deployed; " in refused.stderr
    assert re.search(r"; pages goes on as [0-9a-f]{12}\b", refused.stderr)
    alone = headrace("use-cases", "deploy", "score").stderr
    assert (" score goes on as" in alone, "pages goes on" in alone) == (True, False)


def test_what_the_file_has_no_more_is_named_and_removed_by_the_command_that_is_told(
    headrace, config, store
):
    file = config.parent / "use_cases.py"
    file.write_text(SOURCE)
    assert headrace("use-cases", "deploy").exit_code == 0
    file.write_text(SOURCE.replace("def pages", "def visits"))
    for words in ("deploy",), ("deploy", "visits", "--json"):
        result = headrace("use-cases", *words)
        assert result.exit_code == 0, result.output
        assert "pages is not in use_cases.py any more, and runs on" in result.stderr
        assert "'headrace use-cases remove pages' ends it" in result.stderr
    refused = headrace("use-cases", "remove", "pages")
    assert refused.exit_code == 2
    assert "headrace use-cases remove pages" in refused.output
    result = headrace("use-cases", "remove", "pages", "--yes")
    assert (result.exit_code, "removed, and 2 streams of it" in result.output) == (0, True)
    assert "any more" not in headrace("use-cases", "deploy").output
    store.registry.add_tenant(Tenant("corp"))
    run = {stream.id for stream in store.registry.streams() if stream.state is State.ACTIVE}
    assert {stream.use_case for stream in run if stream.tenant == "corp"} == {"score", "visits"}
    assert StreamId("pages", "acme") not in run
    unknown = headrace("use-cases", "remove", "nobody")
    assert (unknown.exit_code, "no use case nobody" in unknown.output) == (2, True)


def test_a_list_names_what_the_file_has_no_more_and_is_printed_also_where_that_cannot_be_told(
    headrace, config
):
    file = config.parent / "use_cases.py"
    file.write_text(SOURCE)
    assert headrace("use-cases", "deploy").exit_code == 0
    assert headrace("use-cases", "list").stderr == ""
    file.write_text(SOURCE.replace("def pages", "def visits"))
    for words in ("list",), ("list", "--json"):
        told = headrace("use-cases", *words)
        assert "pages is not in use_cases.py any more, and runs on" in told.stderr
        assert "'headrace use-cases remove pages' ends it" in told.stderr
    file.write_text("raise ValueError\n")
    broken = headrace("use-cases", "list")
    assert (broken.exit_code, broken.stderr, "pages" in broken.stdout) == (0, "", True)


def test_what_a_module_had_under_its_former_name_is_named_by_deploy(headrace, config, store):
    (config.parent / "use_cases.py").write_text(SOURCE)
    assert headrace("use-cases", "deploy").exit_code == 0
    (config.parent / "use_cases.py").unlink()
    (config.parent / "flows.py").write_text(SOURCE.replace("def pages", "def visits"))
    config.write_text(config.read_text().replace("use_cases.py", "flows.py"))
    told = headrace("use-cases", "deploy").stderr
    assert "pages is not in flows.py any more, and runs on" in told
    assert "'headrace use-cases remove pages' ends it" in told
    assert "score is" not in told, "it is of a file that was never here"


def test_a_deploy_of_what_another_folder_had_says_so(headrace, config, tmp_path):
    (tmp_path / "use_cases.py").write_text(SOURCE)
    assert "was deployed from" not in headrace("use-cases", "deploy").output
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "use_cases.py").write_text(SOURCE + "# mine\n")
    (tmp_path / "second" / "headrace.yaml").write_text(config.read_text())
    second = ("use-cases", "deploy", "--config", str(tmp_path / "second" / "headrace.yaml"))
    told = CliRunner().invoke(app, second)
    paths = f"{tmp_path}/use_cases.py, and is that of {tmp_path}/second/use_cases.py from now on"
    assert (told.exit_code, told.stderr.count("was deployed from")) == (0, 1)
    assert f"warning: pages was deployed from {paths}" in " ".join(told.stderr.split())
    assert "was deployed from" not in CliRunner().invoke(app, second).output


def test_a_use_case_that_is_removed_and_still_in_its_file_is_named(headrace, config, store):
    file = config.parent / "use_cases.py"
    file.write_text(SOURCE)
    assert headrace("use-cases", "deploy").exit_code == 0
    told = headrace("use-cases", "remove", "pages", "--yes")
    assert told.exit_code == 0
    assert "warning: pages is still in use_cases.py: the next deploy, or start of" in told.stderr
    config.write_text(config.read_text() + "use_cases: {pages: {all_tenants: false}}\n")
    assert "still in" not in headrace("use-cases", "remove", "pages", "--yes").output
    file.write_text("x = 1 / 0\n")
    told = headrace("use-cases", "remove", "pages", "--yes")
    assert (told.exit_code, told.stderr) == (0, ""), "what does not load is not looked at further"


def test_a_deploy_of_what_no_tenant_has_says_so_and_what_gives_it_to_one(headrace, config, store):
    (config.parent / "use_cases.py").write_text(SOURCE)
    assert "no tenant" not in headrace("use-cases", "deploy").output
    assert headrace("use-cases", "remove", "pages", "--yes").exit_code == 0
    told = headrace("use-cases", "deploy", "--json")
    assert told.exit_code == 0
    assert "warning: no tenant has a stream of pages, so nothing of it runs" in told.stderr
    assert "'headrace streams add acme/pages'" in told.stderr
    assert headrace("streams", "add", "bolt/pages", "--yes").exit_code == 0
    assert "no tenant" not in headrace("use-cases", "deploy").output
    for tenant in ("acme", "bolt"):
        store.registry.set_tenant_state(tenant, State.REMOVED)
    assert "no tenant" not in headrace("use-cases", "deploy").output, "there is none"


SPLITTER = """\
from headrace.splitting import ByKey, Topic, split

by_tenant, parked = split(topic="{tenant}.all", operator="shared", to="{tenant}.visits",
                          tenant=ByKey(), unknown=Topic("strangers"))
"""


def _words(result):
    return " ".join(result.stderr.split())


def test_a_deploy_of_a_splitter_names_its_operator_and_nobody_else(
    headrace, config, store, monkeypatch
):
    monkeypatch.setattr(use_cases, "absent", lambda _kafka, _names: set())
    (config.parent / "use_cases.py").write_text(SPLITTER)
    with config.open("a") as file:
        file.write("use_cases:\n  split: {all_tenants: false}\n")
    told = _words(headrace("use-cases", "deploy"))
    assert "tenant shared has no stream of split" in told
    assert "'headrace tenants add shared' and 'headrace streams add shared/split'" in told
    store.registry.add_tenant(Tenant("shared"))
    told = _words(headrace("use-cases", "deploy"))
    assert "nothing of it runs: 'headrace streams add shared/split'" in told
    assert "tenants add" not in told
    assert "acme" not in told
    assert headrace("streams", "add", "shared/split", "--yes").exit_code == 0
    assert "no stream" not in _words(headrace("use-cases", "deploy"))


def test_a_deploy_tells_that_the_topic_of_strangers_is_not_there(headrace, config, monkeypatch):
    (config.parent / "use_cases.py").write_text(SPLITTER)
    monkeypatch.setattr(use_cases, "absent", lambda _kafka, names: set(names))
    told = _words(headrace("use-cases", "deploy"))
    assert "topic strangers, to which split writes, is not there" in told
    assert "'headrace topics create split' makes it" in told


def test_a_url_in_place_of_a_folder_is_refused_at_deploy_and_nothing_is_deployed(
    headrace, config, store
):
    before = store.registry.deployments()
    (config.parent / "use_cases.py").write_text(SOURCE.replace('"p"', '"s3a://bucket/p"'))
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 2
    assert "'s3a://bucket/p' must be a path below the warehouse" in result.output
    (config.parent / "use_cases.py").write_text(SOURCE)
    config.write_text(config.read_text() + "warehouse: s3a://bucket\n")
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 2
    assert f"line {len(config.read_text().splitlines())}: warehouse: a URL" in result.output
    assert store.registry.deployments() == before


# --- drivers ---------------------------------------------------------------------------------


class Stander:
    """A driver that answers what is deployed, as it is told to, and does nothing else."""

    def __init__(self, url, name, error=None):
        self.url, self.name, self.error = url, name, error
        self.ended, self.answered = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        store = open_store(self.url)
        number = store.membership.join(self.name, ["pages"])
        while not self.ended.wait(0.05):
            store.membership.beat(self.name, number)
            given = [self._answer(deployment) for deployment in store.registry.deployments()]
            store.membership.answer(self.name, number, given)
            self.answered.set()
        store.close()

    def _answer(self, deployment):
        digest = "0ld" * 8 if self.error else deployment.digest
        given = (self.name, deployment.use_case, deployment.revision, digest, 1_790_000_000.0)
        return Answer(*given, self.error)


@pytest.fixture
def drivers(config, store):
    begun = []

    def begin(name, error=None):
        made = Stander(f"sqlite:///{config.parent}/store.db", name, error)
        begun.append(made)
        made.thread.start()
        assert made.answered.wait(30)

    yield begin
    for taking in begun:
        taking.ended.set()
        taking.thread.join(30)


@pytest.fixture
def pages(config):
    """A file that can be deployed, in several versions."""

    def write(version=1):
        source = SOURCE.replace("return table", f"return table  # {version}")
        (config.parent / "use_cases.py").write_text(source)

    write()
    return write


def test_without_a_driver_a_deployment_says_so_and_is_done(headrace, pages):
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 0
    assert "pages deployed as" in result.output
    assert "no driver runs: the next one to start takes it\n" in result.output
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 0
    assert "nothing changed; no driver runs" in result.output


def test_a_deployment_is_done_when_all_drivers_run_it(headrace, pages, drivers):
    drivers("d1")
    drivers("d2")
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 0, result.output
    assert "d1 runs it" in result.output
    assert "d2 runs it" in result.output
    assert "nothing changed, and runs on d1, d2" in headrace("use-cases", "deploy").output


def test_a_driver_that_refuses_is_named_with_its_reason_also_when_nothing_changed(
    headrace, pages, drivers
):
    drivers("d1")
    drivers("d2", "table pages is there\nwithout column 'x'")
    for what in ("pages deployed as", "pages is deployed already"):
        result = headrace("use-cases", "deploy")
        assert result.exit_code == 1
        assert what in result.output
        assert "d1 runs it" in result.output
        assert "d2 refuses it: table pages is there without column 'x'" in result.output
        assert "it goes on with 0ld0ld0ld0ld" in result.output
        assert "nothing changed" not in result.output


def test_a_driver_that_does_not_answer_in_time_is_named(headrace, store, pages):
    number = store.membership.join("d1", ["pages"])
    store.membership.beat("d1", number)
    result = headrace("use-cases", "deploy", "--wait-s", "0")
    assert result.exit_code == 1
    assert "d1 has not answered yet\n" in result.output


@pytest.mark.parametrize(("names", "told"), [(["d1"], "this one"), (["d1", "d2"], "one of these")])
def test_a_driver_that_is_silent_takes_a_deployment_should_it_answer_again(
    headrace, store, config, pages, names, told
):
    config.write_text(f"{config.read_text()}driver: {{lease: 1s}}\n")
    for name in names:
        store.membership.beat(name, store.membership.join(name, ["pages"]))
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 0
    assert "d1 gives no sign of life, and is not waited for\n" in result.output
    line = f"no driver runs: the next one to start takes it, or {told}, should it answer again\n"
    assert line in result.output


def test_a_driver_that_lived_when_it_was_deployed_and_does_not_since_is_no_success(
    headrace, store, config, pages
):
    config.write_text(f"{config.read_text()}driver: {{lease: 1s}}\n")
    store.membership.beat("d1", store.membership.join("d1", ["pages"]))
    store.statistics.publish(Report("d1", time.time() + 60.0, 0.0, 1, 1, 0, 1, "", (), (), ()))
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 1
    assert "d1 lived when this was deployed, and gives no sign of life since" in result.output


def test_a_terminal_shows_who_is_waited_for(headrace, store, pages, monkeypatch):
    terminal = Console(file=io.StringIO(), force_terminal=True, width=100)
    monkeypatch.setattr("headrace.cli.rollouts.err", terminal)
    store.membership.beat("d1", store.membership.join("d1", ["pages"]))
    headrace("use-cases", "deploy", "--wait-s", "0.5")
    assert "waiting for d1 ..." in terminal.file.getvalue()


def test_nobody_has_to_wait(headrace, store, pages):
    number = store.membership.join("d1", ["pages"])
    store.membership.beat("d1", number)
    result = headrace("use-cases", "deploy", "--no-wait")
    assert result.exit_code == 0
    assert "d1 has not answered yet" in result.output
    (before,) = [
        deployment for deployment in store.registry.deployments() if deployment.use_case == "pages"
    ]
    assert "nothing changed" not in headrace("use-cases", "deploy", "--no-wait").output
    (after,) = [
        deployment for deployment in store.registry.deployments() if deployment.use_case == "pages"
    ]
    assert after.revision == before.revision


def test_a_deployment_says_what_stays_stopped(headrace, store, config, pages, fail):
    source = SOURCE.replace("def pages", "def score").replace(".pages", ".visits")
    (config.parent / "use_cases.py").write_text(source)
    fail()
    assert "score: 1 lane is stopped by failures" in headrace("use-cases", "deploy").output
    fail(partition=1, stop_use_case=True)
    told = headrace("use-cases", "deploy").output
    assert "score: 2 lanes are stopped by failures" in told
    assert "'headrace quarantine retry ID' lets one go on" in told
    assert "score: 2 streams are suspended by a failure" in told
    assert "'headrace use-cases resume score' lets them go on" in told


@pytest.fixture(params=["before", "after"])
def at_once(pages, request):
    """A file, and whether it is the other one that is later."""
    return pages, request.param


@pytest.mark.parametrize(
    ("change", "told"),
    [({"digest": "cd34" * 16}, "cd34cd34cd34"), ({"priority": 7}, "other settings")],
)
def test_whoever_was_first_of_two_that_deploy_at_once_is_told(
    headrace, store, monkeypatch, at_once, change, told
):
    pages, when = at_once
    headrace("use-cases", "deploy")

    def crossed(*given):
        changed = deploy_into(*given) if when == "before" else []
        (before,) = [one for one in store.registry.deployments() if one.use_case == "pages"]
        store.registry.deploy(replace(before, **change))
        return changed

    monkeypatch.setattr("headrace.cli.use_cases.deploy_into", crossed)
    pages(2 if when == "before" else 1)
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 1
    assert f"somebody else has deployed {told} after it" in result.output
    assert "nothing changed" not in result.output
    (row,) = json.loads(headrace("use-cases", "deploy", "--json").stdout)
    assert row["newer"] not in (None, row["digest"]) or "priority" in change


def test_programs_are_told_the_same(headrace, pages, drivers):
    drivers("d1", "no column")
    result = headrace("use-cases", "deploy", "--json")
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)
    assert row["use_case"] == "pages"
    assert row["changed"]
    assert row["stopped"] == {"lanes": 0, "streams": 0}
    assert row["newer"] is None
    (driver,) = row["drivers"]
    assert (driver["driver"], driver["stand"], driver["error"]) == ("d1", "refused", "no column")
    listed = json.loads(headrace("use-cases", "list", "--json").stdout)
    assert [row["use_case"] for row in listed] == ["pages", "score"]
    assert listed[0]["drivers"] == [driver]
    assert (listed[0]["guarantee"], listed[0]["sink"]) == (
        "at-least-once",
        "ParquetFiles(folder='p')",
    )
    assert listed[1]["guarantee"] is None


def test_the_list_shows_where_effects_go_and_who_runs_what(headrace, pages, drivers):
    drivers("d1")
    drivers("d2", "no column")
    headrace("use-cases", "deploy")
    told = headrace("use-cases", "list").output
    (line,) = [line for line in told.splitlines() if line.split()[:1] == ["pages"]]
    assert "at-least-once" in line
    assert "ParquetFiles(folder='p')" in line
    assert " d1 " in line
    assert "d2" not in line
    assert "pages: d2 refuses it: no column" in told
    assert "it goes on with 0ld0ld0ld0ld, since 2026-" in told


def test_what_would_hurt_a_driver_is_refused_at_deploy_and_nothing_is_deployed(
    headrace, config, store
):
    before = store.registry.deployments()
    path = config.parent / "use_cases.py"
    path.write_text(SOURCE + "raise SystemExit\n")
    result = headrace("use-cases", "deploy")
    assert result.exit_code == 2
    line = SOURCE.count("\n") + 1
    assert f"{path}, line {line}, ends the process when it is imported" in result.output
    assert store.registry.deployments() == before
    assert not (config.parent / ".headrace" / "versions").exists()


STARTS = {
    "module: typo.py\n": "there is no file",
    "module: use_cases.py\nuse_cases: {other: {}}\n": "other is not in",
    "module: use_cases.py\nmaster: yarn\n": "the store is SQLite",
    "module: use_cases.py\ndriver: {most_slots: 1, least_slots: 2}\n": "out of order",
}


def test_up_is_known_while_it_checks_what_it_is_to_run(headrace, config, monkeypatch):
    found = []

    def check(_settings, folder, _store):
        found.append(holder(folder_of(folder)))
        raise ConfigError("seen enough")

    monkeypatch.setattr(up_command, "refuse_early", check)
    assert headrace("up").exit_code == 2
    assert found == [os.getpid()]


@pytest.mark.parametrize("yaml", STARTS)
def test_up_starts_no_server_for_what_cannot_run(headrace, config, yaml, monkeypatch):
    monkeypatch.delenv("SMTP_URL", raising=False)
    (config.parent / "use_cases.py").write_text(SOURCE)
    config.write_text(yaml)
    result = headrace("up")
    assert result.exit_code == 2
    assert STARTS[yaml] in result.output
    assert "console" not in result.output
    left = (config.parent / ".headrace" / "up").iterdir()
    assert [path.name for path in left] == [".headrace.lock"]
