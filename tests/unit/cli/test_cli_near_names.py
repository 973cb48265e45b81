"""Who mistypes a name is told the nearest one that is there."""

import pytest

from headrace.errors import StoreUnavailable
from headrace.model.records import Deployment
from headrace.model.streams import State, Tenant
from headrace.store.sql_registry import SqlRegistry


@pytest.fixture
def refused(headrace, store):
    store.registry.add_tenant(Tenant("corporation"))

    def run(*words):
        result = headrace(*words)
        assert result.exit_code == 2, result.output
        return " ".join(result.output.split())

    return run


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("tenants", "weigh", "corporatoin", "2"), "corporation"),
        (("tenants", "throttle", "corporatoin"), "corporation"),
        (("streams", "list", "--tenant", "corporatoin"), "corporation"),
        (("rerun", "corporatoin", "--from", "earliest"), "corporation"),
        (("streams", "list", "--use-case", "scor"), "score"),
        (("use-cases", "resume", "scor"), "score"),
        (("use-cases", "remove", "scor"), "score"),
        (("streams", "add", "acme/scor"), "score"),
        (("streams", "suspend", "acme/scor"), "acme/score"),
        (("streams", "seek", "acme/scor", "--to", "earliest"), "acme/score"),
        (("quarantine", "redrive", "acme/scor"), "acme/score"),
    ],
)
def test_the_nearest_name_is_told(refused, words, meant):
    assert f"; did you mean {meant}?" in refused(*words)


def test_what_is_like_nothing_is_told_alone(refused):
    assert refused("tenants", "weigh", "zzz", "2").endswith("'headrace tenants add zzz' adds it")


def test_what_is_over_is_not_meant(refused, store):
    store.registry.set_tenant_state("corporation", State.REMOVED)
    assert "did you mean" not in refused("tenants", "weigh", "corporatoin", "2")
    over = Deployment("score~1", "m.py", "0" * 64, "{tenant}.visits", all_tenants=False, until={})
    store.registry.deploy(over)
    assert "did you mean score?" in refused("use-cases", "resume", "score~2")


def test_a_store_that_goes_silent_meanwhile_hides_no_unknown_name(refused, monkeypatch):
    def silent(self):
        raise StoreUnavailable("silent")

    monkeypatch.setattr(SqlRegistry, "tenants", silent)
    assert "there is no tenant corporatoin" in refused("tenants", "weigh", "corporatoin", "2")
