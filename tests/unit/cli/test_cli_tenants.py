"""Throttles are typed in the words of the YAML file."""

import json

import pytest

from headrace.model.streams import Throttle


def throttle_of(store):
    return store.registry.tenants()[0].throttle


def test_a_throttle_takes_records_bytes_and_burst(headrace, store):
    words = ("--records", "100", "--bytes", "1m", "--burst", "5s")
    result = headrace("tenants", "throttle", "acme", *words)
    assert result.exit_code == 0, result.output
    assert throttle_of(store) == Throttle(100.0, 1024.0**2, 5.0)
    assert "100 records a second" in result.output
    listed = headrace("tenants", "list").output
    assert listed.splitlines()[1].split()[3:] == ["100", "1.04858e+06", "5", "s"]
    assert listed.splitlines()[2].split()[3:] == ["-", "-", "-"]


def test_a_throttle_without_options_is_lifted(headrace, store):
    headrace("tenants", "throttle", "acme", "--records", "100", "--burst", "250ms")
    assert throttle_of(store).burst_s == 0.25
    assert "as much as it likes" in headrace("tenants", "throttle", "acme").output
    assert throttle_of(store) == Throttle()


def test_a_tenant_can_be_added_with_a_throttle(headrace, store):
    assert headrace("tenants", "add", "aaa", "--bytes", "64k", "--burst", "2s").exit_code == 0
    assert throttle_of(store) == Throttle(None, 65536.0, 2.0)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--burst", "5s"), "--records or --bytes"),
        (("--bytes", "many"), "a size looks like"),
        (("--bytes", "0m"), "not above 0"),
        (("--records", "1", "--burst", "5"), "a duration looks like"),
        (("--records", "0"), "records"),
    ],
)
def test_a_throttle_that_means_nothing_is_refused(headrace, store, words, told):
    result = headrace("tenants", "throttle", "acme", *words)
    assert result.exit_code == 2
    assert told in result.output
    assert throttle_of(store) == Throttle()


def test_a_weight_and_a_limit_reach_as_far_down_as_the_store_has_them(headrace, store):
    assert headrace("tenants", "weigh", "acme", "0.000001").exit_code == 0
    assert store.registry.tenants()[0].weight == 1e-6
    assert headrace("tenants", "throttle", "acme", "--records", "0.0005").exit_code == 0
    assert throttle_of(store).records_per_s == 0.0005


@pytest.mark.parametrize("words", [("weigh", "acme", "0"), ("add", "aaa", "--weight", "0")])
def test_a_weight_of_nothing_is_refused(headrace, words):
    result = headrace("tenants", *words)
    assert result.exit_code == 2
    assert "weight 0.0 is not a number above 0" in result.output


def test_a_limit_of_nothing_names_what_stops_a_tenant(headrace):
    result = headrace("tenants", "throttle", "acme", "--records", "0")
    assert result.exit_code == 2
    assert "to stop a tenant suspend it" in " ".join(result.output.split())


# --- the list ---------------------------------------------------------------------------------


def test_tenants_are_listed_for_programs_in_the_words_of_the_api(headrace):
    headrace("tenants", "throttle", "acme", "--records", "5")
    headrace("tenants", "suspend", "bolt")
    acme, bolt = json.loads(headrace("tenants", "list", "--json").output)
    assert acme == {
        "name": "acme",
        "state": "active",
        "stopped_by": [],
        "generation": 0,
        "weight": 1.0,
        "throttle": {"records_per_s": 5.0, "bytes_per_s": None, "burst_s": 1.0},
    }
    assert (bolt["state"], bolt["stopped_by"]) == ("suspended", ["operator"])


def test_a_removed_tenant_leaves_the_list_until_it_is_asked_for(headrace):
    headrace("tenants", "remove", "acme", "--yes")
    assert "acme" not in headrace("tenants", "list").output
    assert [row["name"] for row in json.loads(headrace("tenants", "list", "--json").output)] == [
        "bolt"
    ]
    assert "removed" in headrace("tenants", "list", "--all").output
    assert len(json.loads(headrace("tenants", "list", "--all", "--json").output)) == 2
