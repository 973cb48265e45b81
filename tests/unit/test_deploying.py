"""What the YAML file names is found or refused, and what changed is deployed."""

import socket

import pytest
from two_use_cases import settings, write

from headrace.deploying import connections_of, deploy, driver_name, load
from headrace.errors import ConfigError, UnknownName


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


def test_a_driver_without_a_name_has_the_same_one_at_its_next_start():
    assert driver_name(settings()) == f"{socket.gethostname()}/use_cases.py"
    assert driver_name(settings(driver={"name": "north"})) == "north"


def test_only_what_changed_is_deployed(tmp_path, store):
    write(tmp_path)
    first = deploy(settings(), load(settings(), tmp_path), store)
    assert [each.use_case for each in first] == ["one", "two"]
    assert deploy(settings(), load(settings(), tmp_path), store) == []
    chosen = settings(use_cases={"two": {"priority": 5}})
    assert [each.use_case for each in deploy(chosen, load(chosen, tmp_path), store)] == ["two"]


def test_one_use_case_can_be_deployed_alone(tmp_path, store):
    write(tmp_path)
    module = load(settings(), tmp_path)
    assert [each.use_case for each in deploy(settings(), module, store, "two")] == ["two"]
    with pytest.raises(UnknownName, match="has no use case three; it has one, two"):
        deploy(settings(), module, store, "three")
