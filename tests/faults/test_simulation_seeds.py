"""Single seeds of unusual odds, in each of which something was wrong once."""

import pytest

from headrace.testing.simulation import simulate
from headrace.testing.simulation.odds import read_odds
from headrace.testing.simulation.run import silent

LISTS = (
    "for_all=0.5,at_end=0.5,divided=1,by_place=0.5,hides=0.3,reads_less=0.2,deletes=0.5,"
    "unheard=0.2,other_terms=1,loads_late=0.5,reruns=0.5,seeks=0.5,letters_fail=0.2,bad=0.03"
)
RESTARTS = (
    "restarts=1,drains_cut=0.3,for_all=0.5,at_end=0.5,hides=0.3,divided=1,by_place=0.3,"
    "other_terms=1,widens=1,read_again=0.2,raises=0.02,bad=0.02,comes_and_goes=0.3"
)
DRAINS = (
    "restarts=1,drains_cut=0.5,divided=1,by_place=0.5,read_again=0.3,hangs=0.01,kills=0.005,"
    "lost_after=0.1,other_terms=0.5,comes_and_goes=0.5,seeks=0.5,driver_killed=0.004,"
    "driver_paused=0.004"
)
SLEEPS = (
    "read_again=0.5,hangs=0.02,kills=0.01,lost_after=0.2,lost_before=0.1,down=0.1,"
    "driver_paused=0.01,task_paused=0.05,comes_and_goes=0.3,seeks=0.3,raises=0.02,sticks=0.003"
)


@pytest.fixture(autouse=True)
def no_log_lines():
    with silent():
        yield


@pytest.mark.parametrize(
    ("seed", "odds"),
    [
        pytest.param(82000880, LISTS, id="a person seeks all that a short list has"),
        pytest.param(82001779, LISTS, id="a claim is lost where nobody tells the end"),
        pytest.param(84000996, RESTARTS, id="a handler raises where nobody tells the end"),
        pytest.param(77000048, DRAINS, id="a stream is resumed after its driver drained"),
        pytest.param(94000211, DRAINS, id="who took up a drained driver's stream dies as well"),
        pytest.param(77000583, DRAINS, id="buckets that are done stand beside those that follow"),
        pytest.param(91003035, DRAINS, id="what has waited lies where a leader tells a low end"),
        pytest.param(92020374, SLEEPS, id="an attempt sleeps that has a gap before its records"),
        pytest.param(93000033, SLEEPS, id="a seek leaves lanes of before beside those of now"),
        pytest.param(93000040, SLEEPS, id="an attempt sleeps over a seek to where its lane is"),
        pytest.param(81000501, SLEEPS, id="a driver sleeps while its heir forgets buckets"),
        pytest.param(500049, "bad=0.3,divided=0.3", id="a stopped lane is of a topic that is gone"),
    ],
)
def test_nothing_is_wrong_in_a_seed_in_which_something_was(seed, odds):
    outcome = simulate(seed, odds=read_odds(odds))
    assert not outcome.wrong, str(outcome)
