"""Faults that are planted for the simulation to find."""

from dataclasses import replace

from headrace.testing.simulation import simulate, world
from headrace.testing.simulation.odds import draw

#: seeds in which each planted fault has to be found: most are in the first ten, and a rare one is
#: in others when plans change
ENOUGH = 2_000
#: what is drawn beside whatever else a seed has, where partitions are divided
DIVIDED = {"other_terms": 1.0, "cuts": 0.2}


def also(monkeypatch, odds):
    """Let what is drawn have these as well, also in runs that are given nothing."""
    monkeypatch.setattr(world, "draw", lambda rng: replace(draw(rng), **odds))


def first_wrong(make=None, seeds=ENOUGH, how="", known=0):
    """What is wrong with the first seed with which anything of that kind is.

    Args:
        make: other parts than the fakes.
        seeds: how many are looked at.
        how: of which kind, a part of what is said.
        known: where it was found before, which is looked at first, so that most runs are short.
    """
    for seed in dict.fromkeys((known, *range(seeds))):
        outcome = simulate(seed, make)
        # A planted fault that is called with other arguments than it takes was never planted.
        assert "TypeError: " not in str(outcome), str(outcome)
        if outcome.wrong and how in str(outcome):
            return str(outcome)
    return ""
