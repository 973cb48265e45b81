"""Faults that are planted for the simulation to find."""

from headrace.testing.simulation import simulate

#: seeds in which each planted fault has to be found
ENOUGH = 60


def first_wrong(make=None, seeds=ENOUGH, how=""):
    """What is wrong with the first seed with which anything of that kind is."""
    for seed in range(seeds):
        outcome = simulate(seed, make)
        # A planted fault that is called with other arguments than it takes was never planted.
        assert "TypeError: " not in str(outcome), str(outcome)
        if outcome.wrong and how in str(outcome):
            return str(outcome)
    return ""
