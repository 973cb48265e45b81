"""What every engine must do with waves, as tests: each comes back once, with what became of it."""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import pyarrow as pa

from headrace.model.places import place_at
from headrace.ports import Engine
from headrace.testing.engine_contract.begun import answer, results, take, wave
from headrace.use_cases import SliceContext, UseCase


class TestWaves:
    """The laws of a wave that nothing happens to."""

    def test_a_wave_comes_back_once_with_a_receipt_for_each_slice(
        self, engine: Engine[UseCase]
    ) -> None:
        take(engine, answer)
        engine.start(wave("w1", "acme", "bolt"))
        (result,) = results(engine, 1)
        assert result.wave == wave("w1", "acme", "bolt")
        assert result.error is None
        reached = sorted(
            (receipt.slice.lane.tenant, receipt.reached) for receipt in result.receipts
        )
        assert reached == [("acme", place_at(10)), ("bolt", place_at(10))]
        assert engine.finished(0.0) == []

    def test_it_says_how_many_executors_it_has_and_where_its_pages_are(
        self, engine: Engine[UseCase]
    ) -> None:
        assert engine.executors >= 1
        assert engine.ui_url == "" or engine.ui_url.startswith("http")

    def test_more_waves_than_slots_all_come_back_once(self, engine: Engine[UseCase]) -> None:
        take(engine, answer)
        names = [f"w{number}" for number in range(4 * engine.slots)]
        for name in names:
            engine.start(wave(name))
        assert sorted(result.wave.id for result in results(engine, len(names))) == sorted(names)
        assert engine.finished(0.0) == []

    def test_there_is_always_a_slot_to_start_with(self, engine: Engine[UseCase]) -> None:
        assert engine.slots >= 1

    def test_nothing_comes_back_where_nothing_was_started(self, engine: Engine[UseCase]) -> None:
        assert engine.finished(0.0) == []

    def test_a_handler_that_raises_fails_its_slice_and_not_the_wave(
        self, engine: Engine[UseCase]
    ) -> None:
        def handler(table: pa.Table, context: SliceContext) -> pa.Table:
            if context.tenant == "acme":
                raise ValueError("not acme")
            return table.select(["offset"])

        take(engine, handler, retries=0)
        engine.start(wave("w1", "acme", "bolt"))
        (result,) = results(engine, 1)
        assert result.error is None
        failed = {receipt.slice.lane.tenant: receipt.error for receipt in result.receipts}
        assert failed["acme"] is not None
        assert failed["bolt"] is None

    def test_a_wave_that_is_not_there_has_not_begun(self, engine: Engine[UseCase]) -> None:
        take(engine, answer)
        engine.start(wave("w1"))
        results(engine, 1)
        assert not engine.began("w1")
        assert not engine.began("w2")
