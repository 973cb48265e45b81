"""What every engine must do when a wave is ended or its worker dies, as tests.

A wave that never comes back holds its lanes for ever.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

from headrace.ports import Engine
from headrace.testing.engine_contract.begun import (
    Deadly,
    NewEngine,
    answer,
    hangs,
    results,
    take,
    wave,
)
from headrace.use_cases import UseCase


class TestEnds:
    """The laws of waves that end early."""

    def test_an_engine_survives_a_worker_that_dies(
        self, engine: Engine[UseCase], deadly: Deadly
    ) -> None:
        take(engine, deadly(engine))
        engine.start(wave("w1"))
        (result,) = results(engine, 1)
        assert result.error is not None or all(receipt.error for receipt in result.receipts)
        take(engine, answer)
        engine.start(wave("w2"))
        (result,) = results(engine, 1)
        assert result.error is None
        assert [receipt.error for receipt in result.receipts] == [None]

    def test_to_cancel_what_is_over_or_was_never_there_is_nothing(
        self, engine: Engine[UseCase]
    ) -> None:
        take(engine, answer)
        engine.start(wave("w1"))
        results(engine, 1)
        engine.cancel("w1")
        engine.cancel("w2")
        engine.start(wave("w2"))
        (result,) = results(engine, 1)
        assert result.error is None
        assert engine.finished(0.0) == []

    def test_a_cancelled_wave_may_run_again_under_its_own_id(self, engine: Engine[UseCase]) -> None:
        take(engine, hangs)
        engine.start(wave("w1"))
        engine.cancel("w1")
        (result,) = results(engine, 1)
        assert result.error is not None
        assert result.error.temporary
        assert result.receipts == ()
        take(engine, answer)
        engine.start(wave("w1"))
        (result,) = results(engine, 1)
        assert result.error is None
        assert [receipt.reached for receipt in result.receipts] == [10]

    def test_what_runs_comes_to_its_end_when_fewer_slots_are_wanted(
        self, engine: Engine[UseCase]
    ) -> None:
        take(engine, answer)
        names = [f"w{number}" for number in range(2 * engine.slots)]
        for name in names:
            engine.start(wave(name))
        engine.resize(1)
        found = results(engine, len(names))
        assert sorted(result.wave.id for result in found) == names
        assert all(result.error is None for result in found)
        assert engine.slots >= 1

    def test_closing_cancels_and_gives_back_what_runs(self, new_engine: NewEngine) -> None:
        engine = new_engine()
        take(engine, hangs)
        names = [f"w{number}" for number in range(engine.slots + 1)]
        for name in names:
            engine.start(wave(name))
        engine.close()
        found = results(engine, len(names))
        assert sorted(result.wave.id for result in found) == names
        assert all(result.error is not None for result in found)
