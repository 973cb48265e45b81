"""Twelve cases in which a sink may end up with another state than one that nothing ever befell.

Each is played, then what is there is held against what ought to be: of a sink that keeps the newest
of a key (``keeps_newest``), for each key what its newest record made of it; of any other, each row,
and once where the sink writes once. A case that a sink cannot have is named in ``cannot_have`` of
its suite with the reason, which is shown; nothing is passed over in silence.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from headrace.model.record_versions import version_of
from headrace.ports import Effect, Written
from headrace.process.crash_points import PlayedKill
from headrace.testing.sink_suite import SinkSuite, State


@dataclass(frozen=True, slots=True)
class Step:
    """An effect, and what it makes of keys."""

    effect: Effect
    states: tuple[State, ...]


class SinkCases(SinkSuite):
    """The twelve cases; part of ``SinkContract``."""

    # what ought to be there

    @property
    def _keeps_newest(self) -> bool:
        return bool(getattr(self.make_sink(), "keeps_newest", False))

    def _expected(self, steps: Sequence[Step]) -> list[str]:
        """What a target has that got these steps one after the other, each once."""
        states = [state for step in steps for state in step.states]
        if not self._keeps_newest:
            return sorted(state.text for state in states)
        newest: dict[str, State] = {}
        for state in states:
            there = newest.get(state.key)
            if there is None or state.version >= there.version:
                newest[state.key] = state
        return sorted(state.text for state in newest.values() if not state.gone)

    def _check(self, *steps: Step, once: bool = True) -> None:
        found, expected = sorted(self._values()), self._expected(steps)
        if self._keeps_newest or (once and self.writes_once):
            assert found == expected
        else:
            assert set(found) == set(expected)

    # what is done

    def _step(
        self, *states: State, partition: int = 0, from_offset: int = 0, depth: int = 0
    ) -> Step:
        made = tuple(
            state._replace(version=version_of(depth, from_offset + number))
            for number, state in enumerate(states)
        )
        table = self.states(made)
        effect = self.effect(table, partition=partition, from_offset=from_offset, depth=depth)
        return Step(effect, made)

    def _write(self, *steps: Step) -> list[Written]:
        """Write steps, each in a call of its own."""
        with self.writer() as writer:
            return [writer.write([step.effect])[0] for step in steps]

    def _run(self, *steps: Step) -> None:
        assert [told.error for told in self._write(*steps)] == [None] * len(steps)

    def _cannot(self, case: str) -> None:
        """Pass over a case that this sink cannot have, and say why."""
        assert case in self.cannot_have, f"say how {case!r} is played, or why it cannot be"
        pytest.skip(f"{case}: {self.cannot_have[case]}")

    # the cases

    def test_a_sink_says_whether_it_keeps_the_newest_of_a_key(self) -> None:
        assert getattr(self.make_sink(), "keeps_newest", None) in (True, False)

    def test_case_1_a_replay(self) -> None:
        first = self._step(_state("a", "1"), _state("b", "1"))
        self._run(first)
        second = self._step(_state("a", "2"), from_offset=2)
        self._run(second)
        self._run(first, second)
        self._check(first, second)

    def test_case_2_what_is_stale_after_what_is_newer(self) -> None:
        old = self._step(_state("a", "1"))
        self._run(old)
        new = self._step(_state("a", "2"), from_offset=1)
        self._run(new)
        self._run(old)
        self._check(old, new)

    def test_case_3_a_delete_and_then_a_stale_put(self) -> None:
        put = self._step(_state("a", "1"), _state("b", "1"))
        self._run(put)
        delete = self._step(_state("a", "gone", gone=True), from_offset=2)
        self._run(delete)
        self._run(put)
        self._check(put, delete)
        later = self._step(_state("a", "3"), from_offset=3)
        self._run(later)
        self._check(put, delete, later)

    def test_case_4_equal_versions(self) -> None:
        first = self._step(_state("a", "1"))
        self._run(first)
        again = replace(first.effect, output=self.states([first.states[0]._replace(value="2")]))
        second = Step(again, (first.states[0]._replace(value="2"),))
        self._run(second)
        found = self._values()
        if self._keeps_newest and not self.writes_once:
            # What is as new as the row that is there replaces it: a rerun mends what it made.
            assert found == self._expected([first, second])
        elif self.writes_once:
            assert len(found) == 1
        assert set(found) <= {state.text for step in (first, second) for state in step.states}
        assert found

    def test_case_5_a_crash_before_the_write(self) -> None:
        step = self._step(_state("a", "1"))
        sink = self.make_sink()
        sink.prepare(self.site())
        lost = sink.open(self.site())
        self._run(step)
        self._check(step)
        lost.close()

    def test_case_5_a_crash_at_the_write(self) -> None:
        if "crash at the write" in self.cannot_have:
            self._cannot("crash at the write")
        before = self._step(_state("b", "1"), partition=1)
        self._run(before)
        step = self._step(_state("a", "1"), _state("b", "2"))
        sink = self.make_sink()
        lost = sink.open(self.site())
        with self.dying_in_a_write(), pytest.raises(PlayedKill):
            lost.write([step.effect])
        self._run(step)
        self._check(before, step)
        lost.close()

    def test_case_5_a_crash_after_the_write(self) -> None:
        step = self._step(_state("a", "1"))
        sink = self.make_sink()
        sink.prepare(self.site())
        lost = sink.open(self.site())
        assert lost.write([step.effect])[0].error is None
        self._run(step)
        self._check(step)
        lost.close()

    def test_case_6_two_zombies(self) -> None:
        sink = self.make_sink()
        sink.prepare(self.site())
        first = self._step(_state("a", "1"))
        late = [self._older(first), self._older(first)]
        with closing(sink.open(self.site())) as one, closing(sink.open(self.site())) as two:
            self._run(first)
            second = self._step(_state("a", "2"), from_offset=1)
            self._run(second)
            for writer, effect in zip((one, two), late, strict=True):
                error = writer.write([effect])[0].error
                assert error is None or error.code != "HandlerError"
        self._run(self._step(_state("c", "1"), partition=1))
        self._check(first, second, Step(first.effect, (_state("c", "1"),)))

    def test_case_7_a_batch_of_which_a_part_is_written(self) -> None:
        good = self._step(_state("a", "1"))
        bad = self.effect(self.refused_table(), tenant="bolt")
        other = self._step(_state("b", "1"), partition=1)
        batch = [good.effect, bad, other.effect]
        with self.writer() as writer:
            for _ in range(2):
                told = writer.write(batch)
                assert [one.error is None for one in told] == [True, False, True]
        self._check(good, other)

    def test_case_8_a_storm_of_refusals(self) -> None:
        good: list[Step] = []
        with self.writer() as writer:
            for call in range(4):
                step = self._step(_state("a", str(call)), from_offset=call)
                bad = [self.effect(self.refused_table(), tenant=f"bad{n}") for n in range(6)]
                told = writer.write([*bad[:3], step.effect, *bad[3:]])
                assert [one.error is None for one in told] == [n == 3 for n in range(7)]
                assert not any(one.error.temporary for one in told if one.error)
                good.append(step)
        self._check(*good)

    def test_case_8_a_target_that_takes_nothing_for_now(self) -> None:
        refusing = self.refusing_for_now()
        if refusing is None:
            self._cannot("refusing for now")
            return
        before = self._step(_state("a", "1"))
        self._run(before)
        steps = [self._step(_state(f"b{n}", "1"), partition=n) for n in range(1, 4)]
        with refusing:
            for told in self._write_without_preparing(*steps):
                assert told.error is not None
                assert told.error.temporary, told.error
        self._run(*steps)
        self._check(before, *steps)

    def _write_without_preparing(self, *steps: Step) -> list[Written]:
        with closing(self.make_sink().open(self.site())) as writer:
            return list(writer.write([step.effect for step in steps]))

    def test_case_9_a_time_out_that_may_have_been_a_success(self) -> None:
        losing = self.losing_an_answer()
        if losing is None:
            self._cannot("ambiguous time-out")
            return
        step = self._step(_state("a", "1"))
        with self.writer() as writer, losing:
            writer.write([step.effect])
        self._run(step)
        self._check(step)

    def test_case_10_from_a_parent_lane_to_its_child(self) -> None:
        parent = self._step(_state("a", "1"))
        self._run(parent)
        last = self._step(_state("a", "2"), from_offset=1)
        self._run(last)
        child = self._step(_state("a", "3"), partition=1, depth=1)
        self._run(child)
        self._run(last)
        self._check(parent, last, child)

    def test_case_11_a_replay_after_the_target_forgot(self) -> None:
        first = self._step(_state("a", "1"))
        self._run(first)
        second = self._step(_state("a", "2"), from_offset=1)
        self._run(second)
        if not self.forgetting():
            self._cannot("replay after the target forgot")
        self._run(first, second)
        self._check(first, second, once=False)

    def test_case_12_nulls(self) -> None:
        stands = 0
        with self.writer() as writer:
            for number, (what, table) in enumerate(self._with_nulls().items()):
                before = len(self.read_back())
                beside = self.table([f"beside {number}"])
                good = self.effect(beside, tenant="cern", from_offset=number)
                odd = self.effect(table, tenant="bolt", from_offset=stands)
                told = writer.write([odd, good])
                assert told[1].error is None, what
                refused = told[0].error
                assert refused is None or not refused.temporary, what
                assert len(self.read_back()) == before + (3 if refused is None else 1), what
                stands += 2 if refused is None else 0

    def _with_nulls(self) -> dict[str, pa.Table]:
        """Tables of two rows with a null in the second, by the column that has it."""
        found = {}
        names = self.table(["x"]).column_names
        for place, name in enumerate(names):
            good = self.table([f"null of {name}", f"other of {name}"])
            column = good.column(place)
            nulled = pa.array([column[0].as_py(), None], column.type)
            found[name] = good.set_column(place, name, nulled)
        return found

    def _older(self, step: Step) -> Effect:
        """The same effect of a driver that was replaced since."""
        pieces = tuple(replace(piece, epoch=0) for piece in step.effect.slices)
        return replace(step.effect, slices=pieces)


def _state(key: str, value: str, *, gone: bool = False) -> State:
    return State(key, value, 0, gone)
