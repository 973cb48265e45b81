"""What every format must do, as tests; for ``Format``.

A test module takes the suite in, and says what it is for::

    from headrace.testing.format_contract import *

    @pytest.fixture
    def formats(): ...     # what is tested: some ways to make one

    @pytest.fixture
    def payloads(): ...    # bytes of which these formats take some, and refuse some
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headrace.ports import RECORD_SCHEMA, Decoded, Format, NoRegistry, Schemas
from headrace.ports import Payloads as Given

__all__ = ["TestFormat", "as_given"]

Payloads = Sequence[bytes | None]


def decoded(kind: Format, payloads: Payloads, *, chunks: int = 1) -> Decoded:
    """What a format makes of payloads, in so many chunks."""
    size = max(1, -(-len(payloads) // chunks))
    parts = [payloads[first : first + size] for first in range(0, len(payloads), size)]
    arrays = [pa.array(part, pa.binary()) for part in parts]
    return kind.decode(as_given(pa.chunked_array(arrays, pa.binary())))


def as_given(
    payloads: pa.ChunkedArray[Any],
    headers: Sequence[Sequence[tuple[str, bytes]]] | None = None,
    schemas: Schemas | None = None,
) -> Given:
    """Payloads of records, in a task; without ``headers`` none has any."""
    kind: Any = RECORD_SCHEMA.field("headers").type
    found: Any = pa.nulls(len(payloads), kind) if headers is None else pa.array(headers, kind)
    return Given(payloads, pa.chunked_array([found]), schemas=schemas or NoRegistry())


class TestFormat:
    """The promises of a format."""

    def test_columns_are_what_the_schema_says(
        self, formats: Sequence[Format], payloads: Payloads
    ) -> None:
        for kind in formats:
            for given in (payloads, payloads[:0]):
                found = decoded(kind, given)
                assert found.columns.schema.types == kind.schema("value").types
                assert found.columns.num_rows + len(found.undecoded) == len(given)

    def test_each_payload_is_what_it_is_alone(
        self, formats: Sequence[Format], payloads: Payloads
    ) -> None:
        for kind in formats:
            for given in (payloads, payloads[::-1], [*payloads, *payloads]):
                alone = [decoded(kind, [payload]) for payload in given]
                whole = decoded(kind, given)
                rows = [row for one in alone for row in one.columns.to_pylist()]
                refused = [
                    (number, one.undecoded[0].reason)
                    for number, one in enumerate(alone)
                    if one.undecoded
                ]
                assert whole.columns.to_pylist() == rows
                assert [tuple(found) for found in whole.undecoded] == refused
                assert decoded(kind, given, chunks=3) == whole

    def test_some_are_taken_and_some_refused(
        self, formats: Sequence[Format], payloads: Payloads
    ) -> None:
        for kind in formats:
            found = decoded(kind, payloads)
            assert found.columns.num_rows > 0, "else the suite has seen nothing"
            assert found.undecoded, "else the suite has seen nothing"

    def test_what_may_not_be_null_is_none_even_below_a_missing_parent(
        self, formats: Sequence[Format], payloads: Payloads
    ) -> None:
        for kind in formats:
            see_no_null_within(decoded(kind, payloads).columns)

    def test_it_travels(self, formats: Sequence[Format], payloads: Payloads) -> None:
        for kind in formats:
            again = pickle.loads(pickle.dumps(kind))  # noqa: S301 - its own
            assert decoded(again, payloads) == decoded(kind, payloads)


def see_no_null_within(columns: pa.Table) -> None:
    """See that none is where none may be, at any depth."""
    for field, column in zip(columns.schema, columns.itercolumns(), strict=True):
        for chunk in column.chunks:
            _see_no_null(field, chunk)


def _see_no_null(field: pa.Field[Any], column: Any) -> None:
    assert field.nullable or column.null_count == 0, field
    if pa.types.is_struct(field.type):
        for number, inner in enumerate(field.type.fields):
            _see_no_null(inner, column.field(number))
    elif pa.types.is_list(field.type):
        _see_no_null(field.type.value_field, column.flatten())
    elif pa.types.is_map(field.type):
        _see_no_null(field.type.item_field, column.items)
