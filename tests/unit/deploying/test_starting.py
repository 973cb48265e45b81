"""A start deploys what never was, and changes no code; what else lies in the folder it says."""

import os
import shutil

import pytest
from structlog.testing import capture_logs
from two_use_cases import answers, deployment_of, settings, write

from headrace.deploying import checking, starting
from headrace.deploying import offer as deploying
from headrace.deploying.checking import Declared
from headrace.deploying.offer import check_without_servers, deploy, load
from headrace.deploying.starting import begin
from headrace.errors import BrokerUnavailable, ConfigError, SinkUnavailable
from headrace.model.records import Deployment
from headrace.model.restarts import Restart
from headrace.model.streams import Tenant
from headrace.operating.retiring import retire
from headrace.operating.topics import has_to_be_there
from headrace.settings.driver import UseCaseSettings
from headrace.versions import load_code


def declared(check):
    """What a check tells of a file, which is loaded in this process."""
    return {
        name: Declared(
            one.topic,
            one.bad_record,
            one.terms,
            one.divides_by,
            one.restart,
            has_to_be_there=has_to_be_there(one),
        )
        for name, one in load_code(check.code, check.path).use_cases.items()
    }


@pytest.fixture(autouse=True)
def checks(monkeypatch):
    """What was checked; here in this process, as a process for each would take its time."""
    made = []

    def checked(check):
        made.append(check)
        return declared(check)

    monkeypatch.setattr("headrace.deploying.offer.checked", checked)
    return made


def test_the_first_start_deploys_and_the_next_ones_only_say_what_else_lies_there(
    tmp_path, store, capsys
):
    write(tmp_path, names=("one",), answer="1")
    assert begin(settings(), tmp_path, store) == {"one"}
    assert answers(store, tmp_path) == 1
    write(tmp_path, answer="2")
    assert begin(settings(), tmp_path, store) == {"one", "two"}
    assert answers(store, tmp_path) == 1
    assert answers(store, tmp_path, "two") == 2, "it was never deployed"
    told = capsys.readouterr().out
    assert told.count("another version lies in the folder") == 1
    assert "headrace use-cases deploy one" in told
    assert begin(settings(), tmp_path, store, anew=True) == {"one", "two"}
    assert answers(store, tmp_path) == 2


def test_what_the_file_has_no_more_is_named_with_what_ends_it(tmp_path, store, capsys):
    write(tmp_path)
    begin(settings(), tmp_path, store)
    assert "runs on" not in capsys.readouterr().out
    write(tmp_path, names=("one",))
    begin(settings(), tmp_path, store, anew=True)
    told = capsys.readouterr().out
    assert told.count("a use case that the file has no more runs on") == 1
    assert "'headrace use-cases remove two' ends it" in told
    retire(store.registry, "two")
    begin(settings(), tmp_path, store)
    assert "runs on" not in capsys.readouterr().out


def test_a_start_that_replaces_what_another_folder_had_says_so(tmp_path, store, capsys):
    first, second = tmp_path / "first", tmp_path / "second"
    for number, folder in enumerate((first, second)):
        folder.mkdir()
        write(folder, names=("one",), answer=str(number))
    begin(settings(), first, store)
    begin(settings(), second, store)
    begin(settings(), first, store, anew=True)
    assert "from another file" not in capsys.readouterr().out
    begin(settings(), second, store, anew=True)
    told = capsys.readouterr().out
    assert told.count("a use case that was deployed from another file is replaced") == 1
    assert f"{first}/use_cases.py had it" in told
    link = tmp_path / "current"
    link.symlink_to("second")
    write(second, names=("one",), answer="3")
    begin(settings(), link, store, anew=True)
    begin(settings(), second, store, anew=True)
    assert "from another file" not in capsys.readouterr().out


def test_a_restart_that_the_file_says_no_more_is_over_with_the_next_start(tmp_path, store):
    def started(use_cases, answer="1"):
        write(tmp_path, names=("one",), answer=answer)
        said = settings().model_copy(update={"use_cases": use_cases})
        begin(said, tmp_path, store)
        return deployment_of(store, "one").restart

    latest = {"one": UseCaseSettings(restart="latest", restart_after="5m")}
    assert started({}) is None
    assert started(latest) == Restart(300.0)
    assert started({}, answer="2") == Restart(300.0), "of what is deployed nothing was read"
    assert started({}) is None


def test_only_what_is_deployed_is_checked(tmp_path, store, checks):
    write(tmp_path, names=("one",))
    begin(settings(), tmp_path, store)
    begin(settings(), tmp_path, store)
    write(tmp_path)
    begin(settings(), tmp_path, store)
    begin(settings(), tmp_path, store)
    begin(settings(), tmp_path, store, anew=True)
    assert [check.but for check in checks] == [
        frozenset(),
        {"one"},
        {"one"},
        {"one", "two"},
        frozenset(),
    ]
    assert all(check.connections is not None for check in checks)


def test_a_start_imports_nothing_in_the_process_of_the_driver(tmp_path, store, monkeypatch):
    monkeypatch.setattr("headrace.deploying.offer.checked", checking.checked)
    at = {"database_url": f"sqlite:///{tmp_path}/store.db"}
    write(tmp_path, names=("one",))
    with (tmp_path / "use_cases.py").open("a") as source:
        source.write(
            f"import os, pathlib, time\npathlib.Path(r'{tmp_path}', str(os.getpid())).touch()\n"
            f"if pathlib.Path(r'{tmp_path}', 'slow').exists(): time.sleep(600)\n"
        )
    begin(settings(**at), tmp_path, store)
    (tmp_path / "slow").touch()
    # What was found fit once, and is kept, may hang by now; what was deployed runs all the same.
    assert begin(settings(deploy_timeout="1s", **at), tmp_path, store) == {"one"}
    assert not (tmp_path / str(os.getpid())).exists()


@pytest.mark.parametrize("stay", [False, True])
def test_what_would_read_another_tenants_topic_stops_no_start_of_the_others(tmp_path, store, stay):
    store.registry.add_tenants([Tenant("acme"), Tenant("acme-eu")])
    write(tmp_path, names=("one",), topic="{tenant}-visits")
    assert begin(settings(), tmp_path, store) == {"one"}
    with (tmp_path / "use_cases.py").open("a") as source:
        source.write(
            "@use_case(topic='{tenant}-eu-visits', sink=ParquetFiles('two'))\n"
            "def two(table, context):\n    return table\n"
        )
    with capture_logs() as told:
        assert begin(settings(), tmp_path, store, stay=stay) == {"one"}
    assert "acme-eu-visits" in str(told)
    assert [known.use_case for known in store.registry.deployments()] == ["one"]


def test_what_the_yaml_file_says_and_cannot_be_stops_no_start(tmp_path, store):
    store.registry.add_tenants([Tenant("acme"), Tenant("acme-eu")])
    write(tmp_path, topic="{tenant}-eu-visits", names=("one",))
    begin(settings(use_cases={"one": {"all_tenants": False}}), tmp_path, store)
    store.registry.deploy(Deployment("two", "other.py", "ab12", "{tenant}-visits"))
    with capture_logs() as told:
        assert begin(settings(), tmp_path, store) == {"one"}
    assert "what the YAML file says of a use case is not taken" in str(told)
    assert "acme-eu-visits" in str(told)
    assert not deployment_of(store).all_tenants


def test_a_start_reads_the_file_once(tmp_path, store, monkeypatch):
    """Else what is checked may be another one than what is deployed."""
    reads = []
    read = deploying.read_code
    monkeypatch.setattr(deploying, "read_code", lambda place: reads.append(place) or read(place))
    write(tmp_path, names=("one",))
    begin(settings(), tmp_path, store)
    write(tmp_path)
    deploying.keep(settings(), load(settings(), tmp_path))
    reads.clear()
    for _ in ("a use case is new", "nothing is"):
        begin(settings(), tmp_path, store)
    assert len(reads) == 2


def test_a_start_takes_what_the_yaml_file_says_of_what_was_deployed(tmp_path, store):
    write(tmp_path, answer="1")
    begin(settings(), tmp_path, store)
    write(tmp_path, answer="2")
    begin(settings(use_cases={"one": {"priority": 5}}), tmp_path, store)
    assert deployment_of(store).priority == 5
    assert answers(store, tmp_path) == 1


@pytest.mark.parametrize("is_fit", [True, False])
def test_a_start_that_takes_long_undoes_nothing_that_is_deployed_meanwhile(
    tmp_path, store, monkeypatch, is_fit
):
    write(tmp_path, names=("one",), answer="1")
    begin(settings(), tmp_path, store)
    given = settings(use_cases={"one": {"priority": 5}})

    def checked(check):
        write(tmp_path, answer="2")
        deploy(given, load(given, tmp_path), store.registry)
        if not is_fit:
            raise ConfigError("it does not import")
        return declared(check)

    monkeypatch.setattr("headrace.deploying.offer.checked", checked)
    write(tmp_path, answer="3")
    begin(given, tmp_path, store)
    assert [answers(store, tmp_path, name) for name in ("one", "two")] == [2, 2]
    assert deployment_of(store).priority == 5


def test_up_refuses_a_broken_file_only_where_nothing_was_deployed(tmp_path, store):
    """Refused later, it would have started servers for nothing; and what was deployed can run."""
    path = tmp_path / "use_cases.py"
    path.write_text("x = 1 / 0\n")
    with pytest.raises(ConfigError, match="does not import"):
        check_without_servers(settings(), tmp_path)
    write(tmp_path)
    begin(settings(), tmp_path, store)
    path.write_text("x = 1 / 0\n")
    check_without_servers(settings(), tmp_path)
    path.unlink()
    check_without_servers(settings(), tmp_path)
    assert begin(settings(), tmp_path, store, stay=True) == {"one", "two"}


def test_a_start_goes_on_where_the_yaml_names_what_was_never_deployed(tmp_path, store, capsys):
    write(tmp_path)
    begin(settings(), tmp_path, store)
    for stay in (False, True):
        capsys.readouterr()
        given = settings(use_cases={"three": {}})
        assert begin(given, tmp_path, store, stay=stay) == {"one", "two"}
        assert "three is not in" in capsys.readouterr().out


def test_a_broken_file_stops_no_start_of_what_was_deployed(tmp_path, store, capsys):
    write(tmp_path, answer="1")
    begin(settings(), tmp_path, store)
    (tmp_path / "use_cases.py").write_text("raise SystemExit\n")
    assert begin(settings(), tmp_path, store) == {"one", "two"}
    assert answers(store, tmp_path) == 1
    assert "what lies in the folder cannot be deployed" in capsys.readouterr().out
    (tmp_path / "use_cases.py").unlink()
    assert begin(settings(), tmp_path, store) == {"one", "two"}, "others have it, where copies are"
    (tmp_path / "use_cases.py").write_text("raise SystemExit\n")
    with pytest.raises(ConfigError, match="SystemExit"):
        begin(settings(), tmp_path, store, anew=True)


def test_a_broken_file_gives_nobody_a_use_case_that_was_removed(tmp_path, store):
    write(tmp_path)
    begin(settings(), tmp_path, store)
    retire(store.registry, "two")
    (tmp_path / "use_cases.py").write_text("x = 1 / 0\n")
    begin(settings(use_cases={"one": {"priority": 5}}), tmp_path, store)
    store.registry.add_tenant(Tenant("corp"))
    assert [stream.id.use_case for stream in store.registry.streams()] == ["one"]
    assert deployment_of(store).priority == 5
    begin(settings(use_cases={"two": {"all_tenants": True}}), tmp_path, store)
    assert deployment_of(store, "two").all_tenants, "the YAML file says so"


WRITTEN_AS = [
    ("./flows/score.py", "flows/score.py"),
    ("flows.score", "flows/score.py"),
    ("flows.score", "flows/score/__init__.py"),
    ("flows", "flows.py"),
    ("flows", "flows/__init__.py"),
    ("flows.score", "site-packages/flows/score.py"),
]


@pytest.mark.parametrize(("module", "file"), WRITTEN_AS)
def test_however_the_yaml_file_names_the_module_a_broken_one_stops_no_start(
    tmp_path, store, monkeypatch, module, file
):
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    chosen = settings(module=module)
    write(tmp_path, answer=repr(f"{module} in {file}"), file=file)
    begin(chosen, tmp_path, store)
    for broken in ("raise SystemExit\n", "def broken(:\n", None):
        (tmp_path / file).unlink()
        if broken is not None:
            (tmp_path / file).write_text(broken)
        assert begin(chosen, tmp_path, store) == {"one", "two"}
        assert answers(store, tmp_path, module=module) == f"{module} in {file}"


def swing(link, to):
    """Let a link lead elsewhere."""
    link.unlink(missing_ok=True)
    link.symlink_to(to)


BEHIND_LINKS = [
    ("current/use_cases.py", "current", ""),
    ("current.use_cases", "current", ""),
    ("use_cases.py", "use_cases.py", "/use_cases.py"),
]


@pytest.mark.parametrize(("module", "link", "file"), BEHIND_LINKS)
def test_what_was_deployed_by_a_link_runs_when_it_swings_to_a_broken_release(
    tmp_path, store, capsys, module, link, file
):
    chosen = settings(module=module)
    for number in (1, 2, 3):
        write(tmp_path / f"release{number}", answer=f"helper() * {number}")
        with (tmp_path / f"release{number}/use_cases.py").open("a") as source:
            source.write(f"from {'current.' * ('.py' not in module)}rules import helper\n")
        (tmp_path / f"release{number}/rules.py").write_text("def helper():\n    return 10\n")
    swing(tmp_path / link, f"release1{file}")
    begin(chosen, tmp_path, store)
    (tmp_path / "release2/use_cases.py").write_text("raise SystemExit\n")
    swing(tmp_path / link, f"release2{file}")
    shutil.rmtree(tmp_path / "release1")
    assert begin(chosen, tmp_path, store) == {"one", "two"}
    assert answers(store, tmp_path, module=module) == 10
    assert "what lies in the folder cannot be deployed" in capsys.readouterr().out
    swing(tmp_path / link, f"release3{file}")
    begin(chosen, tmp_path, store)
    assert "another version lies in the folder" in capsys.readouterr().out
    begin(chosen, tmp_path, store, anew=True)
    assert answers(store, tmp_path, module=module) == 30


def test_what_an_earlier_headrace_deployed_from_behind_a_link_is_known_by_that(tmp_path, store):
    write(tmp_path / "release1", answer="1")
    begin(settings(), (tmp_path / "release1").resolve(), store)
    (tmp_path / "current").symlink_to("release1")
    (tmp_path / "release1/use_cases.py").write_text("raise SystemExit\n")
    assert begin(
        settings(versions=str(tmp_path / "release1/.headrace/versions")),
        tmp_path / "current",
        store,
    ) == {"one", "two"}


def test_a_release_of_equal_sources_is_the_same_version(tmp_path, store, checks):
    for number in (1, 2):
        write(tmp_path / f"release{number}")
        with (tmp_path / f"release{number}/use_cases.py").open("a") as source:
            source.write("import rules\n")
        (tmp_path / f"release{number}/rules.py").write_text("x = 1\n")
    chosen = settings(module="current/use_cases.py")
    swing(tmp_path / "current", "release1")
    begin(chosen, tmp_path, store)
    before = store.registry.deployments()
    swing(tmp_path / "current", "release2")
    begin(chosen, tmp_path, store, anew=True)
    assert store.registry.deployments() == before


def test_a_module_that_becomes_a_package_is_the_same_one(tmp_path, store):
    chosen = settings(module="flows.score")
    write(tmp_path, answer="1", file="flows/score.py")
    begin(chosen, tmp_path, store)
    (tmp_path / "flows/score").mkdir()
    (tmp_path / "flows/score.py").rename(tmp_path / "flows/score/__init__.py")
    (tmp_path / "flows/score/__init__.py").write_text("raise SystemExit\n")
    assert begin(chosen, tmp_path, store) == {"one", "two"}


def test_what_others_have_deployed_in_one_store_lets_no_broken_file_start(tmp_path, store):
    write(tmp_path / "theirs", file="flows/score.py")
    begin(settings(module="flows.score"), tmp_path / "theirs", store)
    write(tmp_path / "ours", names=("three",), file="flows/score.py")
    (tmp_path / "ours/flows/score.py").write_text("raise SystemExit\n")
    with pytest.raises(ConfigError, match="SystemExit"):
        begin(settings(module="flows.score"), tmp_path / "ours", store)


def test_a_typo_in_the_name_of_the_module_stops_a_start(tmp_path, store):
    write(tmp_path)
    begin(settings(), tmp_path, store)
    with pytest.raises(ConfigError, match="there is no file"):
        begin(settings(module="use_case.py"), tmp_path, store)


def test_a_server_that_a_new_use_case_waits_for_stops_no_start_of_the_others(
    tmp_path, store, monkeypatch
):
    def down(_):
        raise SinkUnavailable("not now")

    write(tmp_path, names=("one",))
    begin(settings(), tmp_path, store)
    write(tmp_path)
    monkeypatch.setattr("headrace.deploying.offer.checked", down)
    assert begin(settings(), tmp_path, store) == {"one"}
    assert [deployment.use_case for deployment in store.registry.deployments()] == ["one"]


def test_a_file_that_is_not_fit_is_not_deployed_at_the_first_start(tmp_path, store):
    (tmp_path / "use_cases.py").write_text("raise SystemExit\n")
    with pytest.raises(ConfigError, match="SystemExit"):
        begin(settings(), tmp_path, store)
    assert store.registry.deployments() == []


def test_a_start_keeps_a_copy_of_what_an_earlier_headrace_deployed(tmp_path, store, capsys):
    write(tmp_path, answer="1")
    deploy(settings(), load(settings(), tmp_path), store.registry)
    shutil.rmtree(tmp_path / ".headrace")
    (tmp_path / ".headrace").write_text("in the way")
    assert begin(settings(), tmp_path, store) == {"one", "two"}
    assert "what was deployed runs from its file" in capsys.readouterr().out
    (tmp_path / ".headrace").unlink()
    begin(settings(), tmp_path, store)
    write(tmp_path, answer="2")
    assert answers(store, tmp_path) == 1


def test_up_stays_where_a_table_lacks_a_column_and_says_what_to_do(tmp_path, store, monkeypatch):
    def lacks(_):
        raise ConfigError("use case one: table pages is there without column 'country': add it")

    write(tmp_path, names=("one",), answer="1")
    with monkeypatch.context() as patch, capture_logs() as first:
        patch.setattr("headrace.deploying.offer.checked", lacks)
        assert begin(settings(), tmp_path, store, stay=True) == frozenset()
    assert (store.registry.deployments(), first[0]["log_level"]) == ([], "error")
    assert first[0]["why"].startswith("nothing runs; ")
    begin(settings(), tmp_path, store)
    write(tmp_path, names=("one",), answer="2")
    monkeypatch.setattr("headrace.deploying.offer.checked", lacks)
    with capture_logs() as logs:
        assert begin(settings(), tmp_path, store, anew=True, stay=True) == {"one"}
    assert answers(store, tmp_path) == 1
    assert "what was deployed before runs: one" in logs[0]["why"]
    assert "'country'" in logs[0]["error"]
    assert "headrace use-cases deploy" in logs[0]["why"]
    with pytest.raises(ConfigError, match="country"):
        begin(settings(), tmp_path, store, anew=True)


SPLITTER = """\
from headrace.splitting import ByKey, Topic, split

by_tenant, parked = split(topic="{tenant}.all", operator="acme", to="{tenant}.visits",
                          tenant=ByKey(), unknown=Topic("strangers"))
"""


@pytest.mark.parametrize("is_there", [True, False, None])
def test_a_topic_of_strangers_that_is_not_there_is_told_with_what_makes_it(
    tmp_path, store, monkeypatch, is_there
):
    """Only `use-cases deploy` told it, and `up` deploys as well."""
    (tmp_path / "use_cases.py").write_text(SPLITTER)
    asked = []

    def absent(config, topics):
        asked.append(topics)
        if is_there is None:
            raise BrokerUnavailable("no broker answers")
        return set() if is_there else topics

    monkeypatch.setattr(starting, "absent", absent)
    with capture_logs() as told:
        begin(settings(), tmp_path, store)
        begin(settings(), tmp_path, store)
    assert asked == [{"strangers"}, {"strangers"}]
    warned = [one for one in told if one["event"] == "a topic that is written to is not there"]
    assert len(warned) == (2 if is_there is False else 0)
    for one in warned:
        assert (one["use_case"], one["topic"]) == ("split", "strangers")
        assert one["why"] == "'headrace topics create split' makes it"
