"""Whoever deploys waits for the drivers that live, and for no others."""

from dataclasses import replace

import pytest
from two_use_cases import after_look

from headrace.model.records import Answer, Deployment, Peer
from headrace.model.statistics import Report
from headrace.operating import rollout
from headrace.operating.rollout import Rollout, asked_again, standings_now, stopped
from headrace.policies.rollout import Stand
from headrace.testing.memory_store import MemoryStore

SCORE = Deployment("score", "score.py", "ab12", "{tenant}.visits")
LEASE_S = 15.0


class Time:
    """Passes when somebody sleeps; something may happen meanwhile."""

    def __init__(self):
        self.now_s = 0.0
        self.looks = 0
        self.happens = {}

    def monotonic(self):
        return self.now_s

    def time(self):
        return 1000.0 + self.now_s

    def sleep(self, seconds):
        self.now_s += seconds
        self.looks += 1
        self.happens.get(self.looks, lambda: None)()


@pytest.fixture
def time(monkeypatch):
    made = Time()
    monkeypatch.setattr(rollout, "time", made)
    return made


@pytest.fixture
def store():
    made = MemoryStore()
    made.registry.deploy(SCORE)
    return made


def joined(store, name):
    number = store.membership.join(name, ["score"])
    store.membership.beat(name, number)
    return number


def says(store, name, number, error=None, again=False):
    (deployment,) = store.registry.deployments()
    given = Answer(name, "score", deployment.revision, "ab12", 1.0, error, again)
    assert store.membership.answer(name, number, [given])


def waited(store, wait_s=90.0):
    return Rollout(store, store.registry.deployments(), LEASE_S).wait(wait_s, lambda _: None)[
        "score"
    ]


def test_with_no_driver_nobody_is_waited_for(store, time):
    assert waited(store) == []
    assert time.looks == 0


def test_all_that_live_are_waited_for_until_each_has_answered(store, time):
    first, second = joined(store, "d1"), joined(store, "d2")
    says(store, "d1", first)
    time.happens[5] = lambda: says(store, "d2", second, "no column")
    found = waited(store)
    assert time.looks == 5
    assert [(standing.driver, standing.stand) for standing in found] == [
        ("d1", Stand.RUNS),
        ("d2", Stand.REFUSED),
    ]


def test_one_that_lives_and_does_not_answer_is_waited_for_as_long_as_was_asked(store, time):
    number = joined(store, "d1")
    for look in range(1, 1000):
        time.happens[look] = lambda: store.membership.beat("d1", number)
    (found,) = waited(store, 30.0)
    assert found.stand is Stand.WAITING
    assert time.now_s == pytest.approx(30.0, abs=1.0)


def test_one_that_is_silent_for_a_lease_is_not_waited_for(store, time):
    joined(store, "d1")
    (found,) = waited(store)
    assert found.stand is Stand.SILENT
    assert time.now_s == pytest.approx(LEASE_S, abs=1.0)


def reported(store, name, at_s):
    store.statistics.publish(Report(name, at_s, 0.0, 1, 1, 0, 1, "", (), (), ()))


def test_one_that_lived_when_it_was_deployed_and_is_silent_since_is_told_as_gone(store, time):
    joined(store, "d1")
    reported(store, "d1", 999.0)
    (found,) = waited(store)
    assert found.stand is Stand.GONE
    assert time.now_s == pytest.approx(LEASE_S, abs=1.0)


def test_so_is_one_that_beat_meanwhile_and_then_no_more(store, time):
    number = joined(store, "d1")
    time.happens[2] = lambda: store.membership.beat("d1", number)
    (found,) = waited(store)
    assert found.stand is Stand.GONE


def test_one_that_was_silent_before_has_nothing_to_do_with_it(store, time):
    joined(store, "d1")
    reported(store, "d1", 980.0)
    (found,) = waited(store)
    assert found.stand is Stand.SILENT


def test_one_that_answered_before_it_fell_silent_is_only_silent(store, time):
    number = joined(store, "d1")
    reported(store, "d1", 999.0)
    says(store, "d1", number)
    second = joined(store, "d2")
    for look in range(1, 100):
        time.happens[look] = lambda: store.membership.beat("d2", second)
    found = waited(store, 30.0)
    assert [standing.stand for standing in found] == [Stand.SILENT, Stand.WAITING]


def test_one_that_leaves_meanwhile_is_not_waited_for(store, time):
    number = joined(store, "d1")
    time.happens[3] = lambda: store.membership.leave("d1", number)
    assert waited(store) == []


def test_a_name_that_lost_streams_were_found_in_is_no_driver(store, time):
    store.data.drivers["lost"] = Peer("lost", 1, 0, frozenset({"score"}))
    assert waited(store) == []
    assert time.looks == 0


def test_what_was_not_changed_is_asked_for_again_and_the_rest_is_let_alone(store):
    store.registry.deploy(Deployment("mail", "m.py", "cd34", "{tenant}.mails"))
    before = {
        deployment.use_case: deployment.revision for deployment in store.registry.deployments()
    }
    found = asked_again(store.registry, ["score", "mail"], {"mail"})
    after = {deployment.use_case: deployment.revision for deployment in found}
    assert after["score"] > before["score"]
    assert after["mail"] == before["mail"]


def test_to_ask_again_undoes_nothing_that_is_deployed_meanwhile(store, monkeypatch):
    newer = replace(SCORE, digest="ef56")
    after_look(monkeypatch, store, 1, lambda: store.registry.deploy(newer))
    assert asked_again(store.registry, ["score"], set()) == [newer]


def test_reruns_that_are_over_are_nobodys(store):
    joined(store, "d1")
    over = Deployment("score~1", "score.py", "ab12", "{tenant}.visits", until={})
    assert standings_now(store, [over], 0.0) == {"score~1": []}


def test_who_has_told_nothing_for_long_gives_no_sign_of_life(store):
    number = joined(store, "d1")
    says(store, "d1", number)
    store.statistics.publish(Report("d1", 100.0, 0.0, 1, 1, 0, 1, "", (), (), ()))
    (soon,) = standings_now(store, store.registry.deployments(), 110.0)["score"]
    (late,) = standings_now(store, store.registry.deployments(), 130.0)["score"]
    assert (soon.stand, late.stand) == (Stand.RUNS, Stand.SILENT)


def test_nothing_is_stopped_where_nothing_failed(store):
    assert stopped(store, "score") == (0, 0)
