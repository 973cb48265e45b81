"""The simulation where a driver's dead letters wait for long, and logs lose records meanwhile."""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
from planted import first_wrong

from headrace.board import HeldStream
from headrace.cycle.losses import Losses
from headrace.model.records import Deployment
from headrace.model.streams import BadRecordPolicy, DataLossPolicy
from headrace.testing.simulation import deployed, play, simulate, world
from headrace.testing.simulation.brokers import expire
from headrace.testing.simulation.deployed import Deployed
from headrace.testing.simulation.odds import Odds
from headrace.testing.simulation.run import silent

ODDS = {"letters_late": 0.97, "raises": 0.2, "expires": 1.0}


@pytest.fixture(autouse=True)
def letters_wait(monkeypatch):
    """What a handler raises at is given up at once, and what is lost is passed over."""
    made, deploy = Deployed._of_slices, Deployed.deploy

    def with_letters(self, *of):
        return replace(made(self, *of), bad_record=BadRecordPolicy.DEAD_LETTER)

    def with_skips(self, name):
        self.loss[name] = DataLossPolicy.SKIP
        deploy(self, name)

    monkeypatch.setattr(world, "draw", lambda rng: Odds(**ODDS))
    monkeypatch.setattr(Deployed, "_of_slices", with_letters)
    monkeypatch.setattr(Deployed, "deploy", with_skips)
    monkeypatch.setattr(deployed, "Deployment", partial(Deployment, retries=0))
    monkeypatch.setattr(deployed, "_WAVES", 0.0)
    monkeypatch.setattr(play, "_WEIGHTS", list({**play._CHOICES, expire: 8.0}.values()))
    with silent():
        yield


@pytest.fixture
def skips(monkeypatch):
    """What became of those that a driver wanted."""
    told, skip = Counter(), Losses._skip

    def noted(self, held, info, found):
        waits = held.sets_aside
        why = skip(self, held, info, found)
        told["waits for a letter" if waits and why else why or "done"] += 1
        return why

    monkeypatch.setattr(Losses, "_skip", noted)
    return told


def test_nothing_is_wrong_where_letters_wait_and_other_partitions_lose_records(skips):
    for seed in range(100, 140):
        outcome = simulate(seed)
        assert not outcome.wrong, str(outcome)
    assert skips["waits for a letter"] > 0
    assert skips["done"] > 0


def test_a_loss_that_is_passed_over_while_a_letter_waits_is_found(monkeypatch):
    """It raises the epoch, under which nobody heeds the answer: the lane of the letter stands."""
    skip = Losses._skip

    def hasty(self, held, info, found):
        with monkeypatch.context() as patched:
            patched.setattr(HeldStream, "sets_aside", property(lambda self: False))
            return skip(self, held, info, found)

    monkeypatch.setattr(Losses, "_skip", hasty)
    assert first_wrong(how="does not come to rest", known=117)
