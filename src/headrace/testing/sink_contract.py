"""The laws every sink keeps, as a suite to run on an own one.

A guarantee is only as good as the sink, and a sink that works on a good day can break each of its
promises on a bad one. So the laws of ``headrace.ports.SinkWriter`` are tests here. Derive a class
whose name starts with ``Test``, say how to make the sink and how to read back, and run pytest::

    class TestMySink(SinkContract):
        def make_sink(self) -> Sink: ...
        def site(self) -> Site: ...
        def table(self, values) -> pa.Table: ...
        def refused_table(self) -> pa.Table: ...
        def wrong_table(self) -> pa.Table: ...
        def read_back(self) -> list[Seen]: ...

Fixtures reach these methods through an ``autouse`` fixture that keeps them on ``self``. Where the
target can take something and its answer be lost, say how in ``losing_an_answer``. The twelve cases
of ``sink_cases.py`` are part of it; one that a sink cannot have is named in ``cannot_have``, with
the reason. Crashes are played in this process; kills of real ones need more than a suite. With
``InBuckets`` before it a suite is of buckets, for sinks that keep or name something for each lane.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.model.places import number_at
from headrace.ports import Effect, needs_shared_folder
from headrace.testing.odd_tables import odd_tables
from headrace.testing.sink_cases import SinkCases
from headrace.testing.sink_suite import USE_CASE, InBuckets, Seen, State

__all__ = ["USE_CASE", "InBuckets", "Seen", "SinkContract", "State"]


class SinkContract(SinkCases):
    """Laws of ``Sink`` and ``SinkWriter``; see the module's docstring."""

    def test_what_was_written_is_there_before_the_writer_is_closed(self) -> None:
        with self.writer() as writer:
            outcomes = writer.write([self.effect(self.table(["a", "b"]))])
            assert [(outcome.committed, outcome.error) for outcome in outcomes] == [
                (self._transacts, None)
            ]
            assert sorted(self._values()) == ["a", "b"]

    def test_a_second_writer_adds_to_what_the_first_wrote(self) -> None:
        for number, value in enumerate(["a", "b"]):
            with self.writer() as writer:
                writer.write([self.effect(self.table([value]), partition=number)])
        assert sorted(self._values()) == ["a", "b"]

    def test_two_lanes_with_the_same_places_are_told_apart(self) -> None:
        both = [self.effect(self.table([value]), partition=n) for n, value in enumerate("ab")]
        sink = self.make_sink()
        for _ in range(2 if self.writes_once else 1):
            with self.writer(sink) as writer:
                assert [told.error for told in writer.write(both)] == [None, None]
        found = self.read_back()
        assert sorted(seen.value for seen in found) == ["a", "b"]
        assert len({seen.identity for seen in found}) == 2

    def test_rows_of_an_effect_keep_their_order(self) -> None:
        values = [f"row {number:03d}" for number in (5, 3, 9, 1, 7, 2, 8)]
        with self.writer() as writer:
            writer.write([self.effect(self.table(values))])
        assert self._values() == values

    def test_later_effects_of_a_lane_come_after_earlier_ones(self) -> None:
        with self.writer() as writer:
            for offset, value in enumerate(["z", "a", "m"]):
                writer.write([self.effect(self.table([value]), from_offset=offset)])
        assert self._values() == ["z", "a", "m"]

    def test_a_refused_effect_leaves_the_others_written_and_is_told_in_its_place(self) -> None:
        with self.writer() as writer:
            outcomes = writer.write(
                [
                    self.effect(self.table(["a"]), tenant="acme"),
                    self.effect(self.refused_table(), tenant="bolt"),
                    self.effect(self.table(["b"]), tenant="cern"),
                ]
            )
        assert [outcome.error is None for outcome in outcomes] == [True, False, True]
        error = outcomes[1].error
        assert error is not None
        assert not error.temporary
        assert sorted(self._values()) == ["a", "b"]

    @pytest.mark.parametrize(
        ("with_moves", "may_repeat"), [(True, True), (False, True), (False, False)]
    )
    def test_whatever_is_odd_about_a_table_its_neighbours_are_there_once_and_in_order(
        self, with_moves: bool, may_repeat: bool
    ) -> None:
        reached = dict.fromkeys(["acme", "bolt", "cern"], 0)

        def effect_of(tenant: str, table: pa.Table) -> Effect:
            made = self.effect(table, tenant=tenant, from_offset=reached[tenant])
            moves = made.move_positions and with_moves
            return replace(made, move_positions=moves, may_repeat=may_repeat)

        good: dict[str, list[str]] = {"acme": [], "cern": []}
        with self.writer() as writer:
            odd = odd_tables(self.table(["odd", "even"])) | self.odd_tables()
            for number, (what, table) in enumerate(odd.items()):
                given = {"acme": self.table([]), "bolt": table, "cern": self.table([])}
                for tenant, values in good.items():
                    more = [f"{tenant} {number} {row}" for row in "zam"]
                    given[tenant] = self.table(more)
                    values.extend(more)
                effects = [effect_of(*of_one) for of_one in given.items()]
                errors = [outcome.error for outcome in writer.write(effects)]
                assert (errors[0], errors[2]) == (None, None), what
                assert errors[1] is None or not errors[1].temporary, what
                for effect, error in zip(effects, errors, strict=True):
                    if error is None:
                        reached[effect.slices[0].lane.tenant] = number_at(effect.reached[0])
        found = self._values()
        for tenant, values in good.items():
            assert [value for value in found if value in values] == values, tenant

    def test_a_writer_goes_on_after_a_refusal(self) -> None:
        with self.writer() as writer:
            writer.write([self.effect(self.refused_table())])
            outcomes = writer.write([self.effect(self.table(["a"]))])
        assert outcomes[0].error is None
        assert self._values() == ["a"]

    def test_the_same_effect_again_does_what_the_guarantee_says(self) -> None:
        sink = self.make_sink()
        effect = self.effect(self.table(["a", "b"]))
        with self.writer(sink) as writer:
            writer.write([effect])
        once = self.read_back()
        with self.writer(sink) as writer:
            outcome = writer.write([effect])[0]
        twice = self.read_back()
        assert outcome.error is None
        if sink.exactly_once is None:
            assert set(twice) == set(once), "a repeat must have the same identity"
        else:
            assert twice == once
            assert outcome.superseded == (sink.exactly_once == "transaction")

    @pytest.mark.parametrize("may_repeat", [True, False])
    def test_without_an_answer_only_what_may_repeat_is_written_again(
        self, may_repeat: bool
    ) -> None:
        losing = self.losing_an_answer()
        if losing is None:
            pytest.skip("no answer of this sink's target can be lost")
        effect = self.effect(self.table(["a", "b"]))
        effect = replace(effect, move_positions=False, may_repeat=may_repeat)
        with self.writer() as writer, losing:
            outcome = writer.write([effect])[0]
        found = self._values()
        if outcome.error is None:
            assert set(found) == {"a", "b"}
        else:
            assert outcome.error.temporary
        if not may_repeat:
            assert outcome.error is not None, "nobody knows, so it may not say that it was written"
            assert len(found) == len(set(found)), "what may not repeat is there twice"

    def test_a_wrong_schema_is_a_permanent_error_that_names_the_column(self) -> None:
        with self.writer() as writer:
            outcome = writer.write([self.effect(self.wrong_table())])[0]
        assert outcome.error is not None
        assert not outcome.error.temporary
        assert outcome.error.code == "WrongSchema"
        assert repr(self.wrong_column) in outcome.error.message
        assert self.read_back() == []

    def test_no_effects_are_no_outcomes(self) -> None:
        with self.writer() as writer:
            assert list(writer.write([])) == []
        assert self.read_back() == []

    def test_an_effect_without_rows_succeeds_and_writes_nothing(self) -> None:
        empty = self.table(["a"]).slice(0, 0)
        # Where no record was left in a slice, no handler ran, and the table has no columns.
        effects = [self.effect(empty), self.effect(pa.table({}), partition=1)]
        with self.writer() as writer:
            outcomes = writer.write(effects)
        assert [(outcome.committed, outcome.error) for outcome in outcomes] == [
            (self._transacts, None)
        ] * 2
        assert self.read_back() == []

    def test_rows_without_columns_are_refused(self) -> None:
        # They stand for records, so they are not "nothing to write".
        with self.writer() as writer:
            outcome = writer.write([self.effect(self.table(["a", "b"]).select([]))])[0]
        assert outcome.error is not None
        assert not outcome.error.temporary
        assert self.read_back() == []

    def test_prepare_may_be_called_again_and_keeps_what_is_there(self) -> None:
        with self.writer() as writer:
            writer.write([self.effect(self.table(["a"]))])
        self.make_sink().prepare(self.site())
        assert self._values() == ["a"]

    def test_who_writes_below_the_warehouse_says_so(self) -> None:
        sink, warehouse = self.make_sink(), self.site().connections.warehouse
        with self.writer(sink) as writer:
            writer.write([self.effect(self.table(["a"]))])
        written = warehouse is not None and _has_files(Path(warehouse))
        assert needs_shared_folder(sink) or not written

    def test_a_sink_travels_by_pickle(self) -> None:
        sink = pickle.loads(pickle.dumps(self.make_sink()))  # noqa: S301 - our own bytes
        with self.writer(sink) as writer:
            writer.write([self.effect(self.table(["a"]))])
        assert self._values() == ["a"]

    def test_no_connection_shows_in_a_repr(self) -> None:
        sink, connections = self.make_sink(), self.site().connections
        with self.writer(sink) as writer:
            shown = repr(sink) + repr(writer) + repr(connections)
        secrets = [connections.database_url, connections.smtp_url]
        secrets += [*connections.kafka.values(), *connections.registry.values()]
        for server in connections.servers.values():
            secrets += [server.url, server.password]
        assert not [secret for secret in secrets if secret and secret in shown]


def _has_files(folder: Path) -> bool:
    return any(path.is_file() for path in folder.rglob("*"))
