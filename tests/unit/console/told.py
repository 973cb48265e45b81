"""What drivers tell, made for tests."""

from headrace.model.statistics import (
    BinFigures,
    LaneFigures,
    Outcome,
    Report,
    Spread,
    StreamFigures,
    UseCaseFigures,
    WaveFigures,
)
from headrace.model.streams import StreamId

DELAY = Spread(10, 0.1, 0.2, 0.4, 0.5, 0.9)


def figures(tenant="acme", use_case="score", **more):
    given = {
        "stream": StreamId(use_case, tenant),
        "topic": f"{tenant}.visits",
        "state": "active",
        "lag_records": 4,
        "lag_s": 1.5,
        "in_per_s": 2.0,
        "out_per_s": 3.0,
        "delay": DELAY,
        "throttled": False,
        "task_share": 0.25,
        "records_total": 100,
        "dead_letters_total": 1,
        "lost_records_total": 0,
        "wave": "w1",
        "note": "",
        "lanes": (
            LaneFigures("acme.visits[0]", 3, 9, lag_records=6),
            LaneFigures("acme.visits[1]", 3, -1),
        ),
    }
    return StreamFigures(**given | more)


def wave(name="w1", started_at_s=1.0, **more):
    bins = (BinFigures(0, ("acme",), 1, 5, Outcome.DONE),)
    given = {"wave": name, "use_case": "score", "started_at_s": started_at_s, "ended_at_s": 2.0}
    return WaveFigures(**given | {"bins": bins} | more)


def of_use_case(use_case="score", **more):
    given = {
        "use_case": use_case,
        "waves_total": 3,
        "processing": DELAY,
        "scheduling": DELAY,
        "delay": DELAY,
        "records_per_s": 5.0,
        "bytes_in_per_s": 50.0,
        "bytes_out_per_s": None,
        "pace_per_s": None,
    }
    return UseCaseFigures(**given | more)


def report(*streams, driver="one", at_s=0.0, waves=(), use_cases=()):
    return Report(driver, at_s, 0.0, 2, 3, 1, 1, "http://spark:4040", streams, use_cases, waves)
