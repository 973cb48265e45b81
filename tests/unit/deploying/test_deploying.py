"""What the YAML file names is found or refused, and what changed is deployed."""

import shutil
import socket
from dataclasses import replace

import pytest
from two_use_cases import after_look, answers, deployment_of, settings, write

from headrace.deploying.offer import (
    check,
    check_without_servers,
    configure,
    connections_of,
    deploy,
    deployed_use_case,
    driver_name,
    load,
    source_of,
)
from headrace.errors import ConfigError, UnknownName
from headrace.versions.code import sha256

#: one more use case, whose sink cannot be prepared
BROKEN = """
class Broken(ParquetFiles):
    def prepare(self, site):
        raise ValueError("no")

@use_case(topic="{tenant}.visits", sink=Broken("four"), name="four")
def four(table, context):
    return table
"""


def test_without_a_broker_the_message_says_what_to_do(tmp_path):
    with pytest.raises(ConfigError, match="headrace up"):
        connections_of(settings(kafka={}), tmp_path)


def test_the_warehouse_is_relative_to_the_yaml_file(tmp_path):
    made = connections_of(settings(warehouse="files"), tmp_path)
    assert made.warehouse == str(tmp_path / "files")


def test_settings_of_a_use_case_that_is_not_there_are_refused(tmp_path):
    write(tmp_path)
    with pytest.raises(ConfigError, match=r"use_cases: three is not in .* it has one, two"):
        load(settings(use_cases={"three": {}}), tmp_path)


def test_settings_of_one_that_is_not_there_are_hidden_by_no_sink_that_cannot_be_prepared(tmp_path):
    write(tmp_path)
    path = tmp_path / "use_cases.py"
    path.write_text(path.read_text() + BROKEN)
    there = {"database_url": f"sqlite:///{tmp_path}/x.db", "warehouse": "files"}
    with pytest.raises(ConfigError, match=r"its sink Broken cannot be prepared"):
        check(settings(**there), tmp_path)
    with pytest.raises(ConfigError, match=r"use_cases: three is not in .* it has four, one, two"):
        check(settings(**there, use_cases={"three": {}}), tmp_path)


def test_a_driver_without_a_name_has_the_same_one_at_its_next_start():
    assert driver_name(settings()) == f"{socket.gethostname()}/use_cases.py"
    assert driver_name(settings(driver={"name": "north"})) == "north"


def test_only_what_changed_is_deployed(tmp_path, store):
    write(tmp_path)
    first = deploy(settings(), load(settings(), tmp_path), store.registry)
    assert [deployment.use_case for deployment in first] == ["one", "two"]
    assert deploy(settings(), load(settings(), tmp_path), store.registry) == []
    chosen = settings(use_cases={"two": {"priority": 5}})
    assert [
        deployment.use_case for deployment in deploy(chosen, load(chosen, tmp_path), store.registry)
    ] == ["two"]


def test_where_one_reads_another_topic_nothing_is_deployed(tmp_path, store):
    write(tmp_path)
    deploy(settings(), load(settings(), tmp_path), store.registry)
    before = store.registry.deployments()
    file = tmp_path / "use_cases.py"
    topic = '"{tenant}.visits" if name == "one" else "{tenant}.others"'
    file.write_text(file.read_text().replace('"{tenant}.visits"', topic) + "# changed\n")
    offer = load(settings(), tmp_path)
    with pytest.raises(ConfigError, match="use case two reads topic"):
        deploy(settings(), offer, store.registry)
    assert store.registry.deployments() == before


def test_what_the_yaml_file_says_undoes_nothing_that_is_deployed_meanwhile(
    tmp_path, store, monkeypatch
):
    write(tmp_path)
    deploy(settings(), load(settings(), tmp_path), store.registry)
    newer = replace(deployment_of(store), digest="cd34")
    after_look(monkeypatch, store, 1, lambda: store.registry.deploy(newer))
    configure(settings(use_cases={"one": {"priority": 5}}), store.registry, ["one"], None)
    assert deployment_of(store) == replace(newer, priority=5)


@pytest.mark.parametrize("number", [1, 2])
def test_a_rerun_that_ends_while_its_use_case_is_deployed_does_not_begin_again(
    tmp_path, store, monkeypatch, number
):
    write(tmp_path, names=("one",))
    deploy(settings(), load(settings(), tmp_path), store.registry)
    rerun = replace(deployment_of(store), use_case="one~1", until={"acme.visits[0]": 5})
    store.registry.deploy(rerun)
    write(tmp_path, names=("one",), answer="2")
    after_look(monkeypatch, store, number, lambda: store.registry.deploy(replace(rerun, until={})))
    deploy(settings(), load(settings(), tmp_path), store.registry)
    assert deployment_of(store, "one~1").until == {}


def with_rerun(folder, store):
    """A use case that is deployed, and a rerun of it that goes on."""
    write(folder, names=("one",), answer="1")
    deploy(settings(), load(settings(), folder), store.registry)
    store.registry.deploy(
        replace(deployment_of(store), use_case="one~1", until={"acme.visits[0]": 5})
    )


@pytest.mark.parametrize("number", range(1, 5))
def test_of_two_that_deploy_at_once_reruns_run_what_their_use_case_runs(
    tmp_path, store, monkeypatch, number
):
    with_rerun(tmp_path, store)
    offers = {}
    for answer in "23":
        write(tmp_path, names=("one",), answer=answer)
        offers[answer] = load(settings(), tmp_path)

    def other():
        monkeypatch.undo()
        deploy(settings(), offers["3"], store.registry)

    after_look(monkeypatch, store, number, other)
    deploy(settings(), offers["2"], store.registry)
    assert deployment_of(store, "one~1").digest == deployment_of(store).digest


def test_what_a_deploy_that_was_killed_has_left_out_the_next_one_does(tmp_path, store):
    with_rerun(tmp_path, store)
    write(tmp_path, names=("one",), answer="2")
    offer = load(settings(), tmp_path)
    store.registry.deploy(replace(deployment_of(store), digest=offer.digest))  # and then killed
    assert deploy(settings(), offer, store.registry) == []
    assert deployment_of(store, "one~1").digest == offer.digest


def test_one_use_case_can_be_deployed_alone(tmp_path, store):
    write(tmp_path)
    module = load(settings(), tmp_path)
    assert [
        deployment.use_case for deployment in deploy(settings(), module, store.registry, "two")
    ] == ["two"]
    with pytest.raises(UnknownName, match="has no use case three; it has one, two"):
        deploy(settings(), module, store.registry, "three")


# --- what runs is what was deployed -----------------------------------------------------------


def test_what_was_deployed_runs_whatever_lies_in_the_folder(tmp_path, store):
    write(tmp_path, answer="1")
    deploy(settings(), load(settings(), tmp_path), store.registry)
    write(tmp_path, answer="2")
    assert answers(store, tmp_path) == 1
    (tmp_path / "use_cases.py").unlink()
    assert answers(store, tmp_path) == 1
    rerun = replace(deployment_of(store), use_case="one~1")
    assert deployed_use_case(rerun, source_of(settings(), tmp_path)).name == "one~1"


def test_drivers_on_several_machines_share_a_folder_of_versions(tmp_path, store):
    shared = {"versions": tmp_path / "shared"}
    write(tmp_path, answer="1")
    deploy(settings(**shared), load(settings(**shared), tmp_path), store.registry)
    (tmp_path / "use_cases.py").rename(tmp_path / "gone.py")
    assert answers(store, tmp_path / "another", **shared) == 1


def test_whoever_can_write_to_the_store_alone_runs_nothing(tmp_path, store):
    write(tmp_path)
    deploy(settings(), load(settings(), tmp_path), store.registry)
    ran = tmp_path / "ran"
    evil = tmp_path / "evil.py"
    evil.write_text(f"open({str(ran)!r}, 'w')\n")
    digest = sha256(evil.read_bytes())
    store.registry.deploy(replace(deployment_of(store), module=str(evil), digest=digest))
    with pytest.raises(ConfigError, match=r"evil.py is not the version .* use-cases deploy one'"):
        answers(store, tmp_path)
    assert not ran.exists()


def test_a_copy_that_was_changed_does_not_run(tmp_path, store):
    write(tmp_path, answer="1")
    deploy(settings(), load(settings(), tmp_path), store.registry)
    (copy,) = (tmp_path / ".headrace" / "versions").glob("*/use_cases.py")
    copy.write_text(copy.read_text().replace("1", "2"))
    with pytest.raises(ConfigError, match="somebody has changed it"):
        answers(store, tmp_path)


def test_what_an_earlier_headrace_deployed_runs_while_the_file_is_that(tmp_path, store):
    write(tmp_path, answer="helper.x")
    path = tmp_path / "use_cases.py"
    path.write_text("import helper\n" + path.read_text())
    (tmp_path / "helper.py").write_text("x = 1\n")
    deploy(settings(), load(settings(), tmp_path), store.registry)
    shutil.rmtree(tmp_path / ".headrace")
    store.registry.deploy(replace(deployment_of(store), digest=sha256(path.read_bytes())))
    assert answers(store, tmp_path) == 1
    assert answers(store, tmp_path, "two") == 1
    path.write_text(path.read_text() + "#\n")
    with pytest.raises(ConfigError, match="is not the version that was deployed"):
        answers(store, tmp_path)


def test_a_helper_alone_makes_a_new_version(tmp_path, store):
    write(tmp_path, answer="helper.x")
    path = tmp_path / "use_cases.py"
    path.write_text("import helper\n" + path.read_text())
    for answer in (1, 2):
        (tmp_path / "helper.py").write_text(f"x = {answer}\n")
        changed = deploy(settings(), load(settings(), tmp_path), store.registry)
        assert [deployment.use_case for deployment in changed] == ["one", "two"]
        assert answers(store, tmp_path) == answer


def test_what_needs_no_server_is_checked_without_one(tmp_path):
    chosen = settings(kafka={})
    with pytest.raises(ConfigError, match="there is no file"):
        check_without_servers(chosen, tmp_path)
    write(tmp_path)
    check_without_servers(chosen, tmp_path)
    with pytest.raises(ConfigError, match="three is not in"):
        check_without_servers(settings(use_cases={"three": {}}), tmp_path)
    (tmp_path / "use_cases.py").write_text("x = 1 / 0\n")
    with pytest.raises(ConfigError, match="line 1, does not import"):
        check_without_servers(chosen, tmp_path)


@pytest.mark.parametrize(("driver", "most_s"), [({}, 5.0), ({"lease": "45s"}, 15.0)])
def test_a_third_of_the_lease_is_what_a_version_may_hold_a_driver(
    tmp_path, monkeypatch, driver, most_s
):
    write(tmp_path)
    asked = []
    monkeypatch.setattr(
        "headrace.deploying.offer.checked", lambda wanted: asked.append(wanted) or {}
    )
    check_without_servers(settings(driver=driver), tmp_path)
    assert [wanted.most_held_s for wanted in asked] == [most_s]


def test_a_registry_that_cannot_be_is_refused_before_anything_is_deployed(tmp_path):
    with pytest.raises(ConfigError, match=r"registry: schema\.registry\.url: an address looks"):
        connections_of(settings(registry={"schema.registry.url": "registry"}), tmp_path)
    made = connections_of(settings(registry={"schema.registry.url": "http://a:1"}), tmp_path)
    assert made.registry == {"schema.registry.url": "http://a:1"}
