"""What every encoding must do, as tests; for ``Encoding``.

What it writes is read by somebody else, who never sees the columns: a value that became another one
on the way is found by nobody. So each row is exactly what it was, or it is refused.

A test module takes the suite in, and says what it is for::

    from headrace.testing.encoding_contract import *

    @pytest.fixture
    def encodings(): ...     # some WrittenAndRead
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.errors import ConfigError, WrongSchema
from headrace.ports import Encoded, Encoding, Format, SchemaKind, WrittenSchema
from headrace.testing.format_contract import decoded

__all__ = ["TestEncoding", "WrittenAndRead"]

#: columns that encoders are tempted to make something else of
_ODD: Sequence[Any] = (
    pa.array([None, None]),
    pa.array([0.1, 1e300]),
    pa.array([1, 2**53 + 1]),
    pa.array([1, 2**64 - 1], pa.uint64()),
    pa.array([True, None]),
    pa.array(["a", "2026-01-02"]),
    pa.array(["a", "b"]).dictionary_encode(),
    pa.array([0.1, 0.5]).dictionary_encode(),
    pa.array([b"\xff", b"a"]),
    pa.array([1, 2], pa.duration("us")),
    pa.array([1, 1_000_001], pa.timestamp("us", "UTC")),
    pa.array([1, 1_000_001], pa.timestamp("us")),
    pa.array([1, 2**62], pa.timestamp("s", "UTC")),
    pa.array([dt.time(1, 2, 3, 4567), None]),
    pa.array([1, 20_000], pa.date32()),
    pa.array([[0.1], []], pa.large_list(pa.float64())),
    pa.array([[("k", 1)], [("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int64())),
    pa.array([{"x": 0.1}, None]),
)
#: what stands in a registry for whatever reason
_SCHEMAS = ('"string"', "string", '["null","int"]', '{"type":["null","int"]}', "{", "[]", "3", "")


@dataclass(frozen=True)
class WrittenAndRead:
    """An encoding, and who reads what it writes, without any framing."""

    kind: Encoding
    reader: Format
    #: that ``check`` is content with; some can be encoded, some perhaps not
    rows: pa.Table
    #: by which it writes, in the place of its own
    schema: WrittenSchema | None = None

    def encoded(self, rows: pa.Table) -> Encoded:
        """What is made of rows; its numbers are right."""
        made = self.kind.encode(rows, self.schema)
        refused = [row for row, _ in made.unencoded]
        assert refused == sorted(set(refused))
        assert len(made.payloads) + len(refused) == rows.num_rows
        assert all(reason for _, reason in made.unencoded)
        return made

    def see_exact(self, rows: pa.Table) -> Encoded:
        """What is not refused is read as it was."""
        made = self.encoded(rows)
        refused = {row for row, _ in made.unencoded}
        kept = [row for number, row in enumerate(_python(rows, refused)) if number not in refused]
        found = decoded(self.reader, list(made.payloads))
        assert not found.undecoded
        read = found.columns.rename_columns(self.reader.schema("value").names)
        again = read.select(rows.column_names).to_pylist(maps_as_pydicts="strict")
        assert again == kept
        return made


class TestEncoding:
    """The promises of an encoding."""

    def test_what_was_encoded_decodes_to_what_it_was(
        self, encodings: Sequence[WrittenAndRead]
    ) -> None:
        for one in encodings:
            one.kind.check(one.rows.schema, one.schema)
            assert one.see_exact(one.rows).payloads, "else the suite has seen nothing"
            nothing = one.see_exact(one.rows.slice(0, 0))
            assert (nothing.payloads, nothing.unencoded) == ([], ())

    def test_each_row_is_what_it_is_alone(self, encodings: Sequence[WrittenAndRead]) -> None:
        for one in encodings:
            rows = one.rows
            numbers = [*range(rows.num_rows), *range(rows.num_rows)][::-1]
            halves = [
                rows.take(numbers[: len(numbers) // 2]),
                rows.take(numbers[len(numbers) // 2 :]),
            ]
            whole = one.encoded(pa.concat_tables(halves))
            alone = [one.encoded(rows.slice(number, 1)) for number in numbers]
            assert list(whole.payloads) == [payload for made in alone for payload in made.payloads]
            assert [tuple(found) for found in whole.unencoded] == [
                (number, made.unencoded[0].reason)
                for number, made in enumerate(alone)
                if made.unencoded
            ]

    def test_it_travels(self, encodings: Sequence[WrittenAndRead]) -> None:
        for one in encodings:
            again: Encoding = pickle.loads(pickle.dumps(one.kind))  # noqa: S301 - its own
            assert again.encode(one.rows, one.schema) == one.encoded(one.rows)

    def test_it_takes_the_columns_that_it_encodes(
        self, encodings: Sequence[WrittenAndRead]
    ) -> None:
        for one in encodings:
            takes = one.kind.takes("value")
            needed = {name for name, is_needed in takes.items() if is_needed}
            assert needed <= set(one.rows.column_names) <= takes.keys()

    def test_a_column_of_any_type_is_refused_or_exact(
        self, encodings: Sequence[WrittenAndRead]
    ) -> None:
        for one in encodings:
            for place, name in enumerate(one.rows.column_names):
                for odd in _ODD:
                    rows = one.rows.take([0, 0]).set_column(place, name, odd)
                    try:
                        one.kind.check(rows.schema, one.schema)
                    except WrongSchema as error:
                        assert name in str(error)  # noqa: PT017 - most are refused
                    else:
                        one.see_exact(rows)

    def test_a_schema_of_any_text_does_not_stop_it(
        self, encodings: Sequence[WrittenAndRead]
    ) -> None:
        for one in encodings:
            if one.kind.registers is None:
                continue
            for schema in [WrittenSchema(kind, text) for kind in SchemaKind for text in _SCHEMAS]:
                made = one.kind.encode(one.rows, schema)
                assert len(made.payloads) + len(made.unencoded) == one.rows.num_rows
                try:
                    one.kind.check(one.rows.schema, schema)
                except (WrongSchema, ConfigError):
                    assert not made.payloads


def _python(rows: pa.Table, refused: set[int]) -> list[Any]:
    """As Python has them; what is refused may be nothing that Python can hold."""
    return [
        None if row in refused else rows.slice(row, 1).to_pylist(maps_as_pydicts="strict")[0]
        for row in range(rows.num_rows)
    ]
