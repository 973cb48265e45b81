"""The simulation with use cases that read one topic for all tenants: nothing is wrong.

Their streams are of the reserved tenant, which is weighed, throttled, suspended, removed and added
again as others are, beside use cases that read a topic of each tenant.
"""

from collections import Counter
from dataclasses import replace

import pytest
from planted import also, first_wrong

from headrace.model.everyone import EVERYONE
from headrace.testing.memory_store import MemoryRegistry, MemoryStore, registry
from headrace.testing.simulation import simulate
from headrace.testing.simulation.run import in_memory, silent

FOR_ALL = {"for_all": 0.6, "comes_and_goes": 0.7}


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_nothing_is_wrong_where_topics_are_for_all(first):
    for seed in range(first, first + 20):
        outcome = simulate(seed, odds=FOR_ALL)
        assert not outcome.wrong, str(outcome)


def test_topics_for_all_are_played():
    counts = sum((simulate(seed, odds=FOR_ALL).counts for seed in range(40)), start=Counter())
    for what in ("use cases of a topic for all", "added again", "throttles", "records checked"):
        assert counts[what] > 0, what


def test_a_topic_for_all_that_each_tenant_has_a_stream_of_is_found(monkeypatch):
    also(monkeypatch, FOR_ALL)
    monkeypatch.setattr(registry, "has_stream", lambda topic, *, reserved: True)
    monkeypatch.setattr(MemoryRegistry, "_refuse_shared", lambda *_: None)
    assert first_wrong(how="foreign")


def test_a_tenant_for_all_that_a_deployment_brings_back_is_found(monkeypatch):
    class Restoring(MemoryRegistry):
        def deploy(self, deployment, **how):
            known = self.data.tenants.get(EVERYONE)
            if known is not None:
                self.data.tenants[EVERYONE] = replace(known, state="active")
            for stream in [one for one in self.data.streams if one.tenant == EVERYONE]:
                self.data.set_stream(stream, state="active")
            return super().deploy(deployment, **how)

    def made():
        store = MemoryStore()
        store.registry = Restoring(store.data)
        return store

    also(monkeypatch, FOR_ALL)
    assert first_wrong(replace(in_memory(), store=made), seeds=300)
