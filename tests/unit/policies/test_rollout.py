"""Where drivers are with a deployment, from what they say."""

from headrace.model.records import Answer, Deployment
from headrace.policies.rollout import Stand, Standing, standings

SCORE = Deployment("score", "score.py", "new", "{tenant}.visits", revision=7)


def answer(driver, revision, digest="new", **more):
    return Answer(driver, more.pop("use_case", "score"), revision, digest, 5.0, **more)


def test_each_driver_stands_where_its_answer_to_this_deployment_puts_it():
    answers = [
        answer("a", 7),
        answer("b", 7, "old", error="no column", again=True),
        answer("c", 6, "old"),
        answer("d", 9, use_case="mail"),
        answer("e", 8),
    ]
    assert standings(SCORE, "edcba", (), answers) == [
        Standing("a", Stand.RUNS, "new", 5.0),
        Standing("b", Stand.REFUSED, "old", 5.0, "no column", again=True),
        Standing("c", Stand.WAITING, "old"),
        Standing("d", Stand.WAITING),
        Standing("e", Stand.RUNS, "new", 5.0),
    ]


def test_the_word_of_one_that_gives_no_sign_of_life_counts_for_nothing():
    (found,) = standings(SCORE, ["a"], {"a"}, [answer("a", 7)])
    assert found == Standing("a", Stand.SILENT)


def test_who_is_no_driver_any_more_is_not_there():
    assert standings(SCORE, [], (), [answer("a", 7)]) == []


def test_who_runs_what_somebody_else_deployed_since_does_not_run_this():
    (found,) = standings(SCORE, ["a"], (), [answer("a", 8, "newer")])
    assert found == Standing("a", Stand.OVERTAKEN, "newer", 5.0)
