"""What a format must do beside ``format_contract``, if it looks up the schemas that records name.

A test module takes the suite in, and says what it is for::

    from headrace.testing.named_schemas_contract import *

    @pytest.fixture
    def written(): ...     # a NamedSchemas
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.formats.framing import prefix_of
from headrace.ports import Decoded, Format, SchemaId, WrittenSchema
from headrace.testing.format_contract import as_given
from headrace.testing.schemas_fake import MemorySchemas

__all__ = ["NamedSchemas", "TestNamedSchemas"]
_HEADER = "__value_schema_id"
_NOBODY_HAS = 999_999


@dataclass(frozen=True)
class NamedSchemas:
    """A format, and what some writers wrote for it."""

    kind: Format
    schemas: Mapping[SchemaId, WrittenSchema]
    #: id of its schema, and payload without any framing: of several ids, mixed, some of them bad
    payloads: Sequence[tuple[SchemaId, bytes]]
    #: what stands between an id and a payload
    between: bytes = field(default=b"")

    def registry(self, away: Collection[SchemaId] = ()) -> MemorySchemas:
        """One that has these schemas, and says nothing of those that are away."""
        return MemorySchemas(dict(self.schemas), silent=away, patience_s=0.0)

    def decoded(
        self,
        payloads: Sequence[tuple[SchemaId, bytes]],
        *,
        away: Collection[SchemaId] = (),
        in_header: bool = False,
        schemas: MemorySchemas | None = None,
    ) -> Decoded:
        """What the format makes of these, by a registry of its own or one that is given."""
        ids = [prefix_of(id_) + self.between for id_, _ in payloads]
        if in_header:
            values = [value for _, value in payloads]
            headers = [[("a", b"b"), (_HEADER, id_)] for id_ in ids]
        else:
            values = [id_ + value for id_, (_, value) in zip(ids, payloads, strict=True)]
            headers = [[("a", b"b")] for _ in ids]
        schemas = schemas or self.registry(away)
        column = pa.chunked_array([pa.array(values, pa.binary())])
        return self.kind.decode(as_given(column, headers, schemas))


class TestNamedSchemas:
    """The promises about schemas that are looked up."""

    def test_several_writers_in_one_batch_are_each_what_they_are_alone(
        self, written: NamedSchemas
    ) -> None:
        whole = written.decoded(written.payloads)
        alone = [written.decoded([payload]) for payload in written.payloads]
        assert len({id_ for id_, _ in written.payloads}) > 1, "else the suite has seen nothing"
        assert whole.columns.num_rows > 0, "else the suite has seen nothing"
        assert whole.columns.to_pylist() == [
            row for one in alone for row in one.columns.to_pylist()
        ]
        assert dict(whole.undecoded) == {
            row: one.undecoded[0].reason for row, one in enumerate(alone) if one.undecoded
        }

    def test_what_stands_before_the_first_that_waits_is_decoded_as_it_would_be_alone(
        self, written: NamedSchemas
    ) -> None:
        ids = [id_ for id_, _ in written.payloads]
        for away in set(ids):
            first = ids.index(away)
            found = written.decoded(written.payloads, away=[away])
            before = written.decoded(written.payloads[:first])
            assert found.waiting is not None
            assert found.waiting.row == first
            assert found.columns == before.columns
            assert found.undecoded == before.undecoded

    def test_who_waits_goes_on_when_somebody_answers(self, written: NamedSchemas) -> None:
        away = written.payloads[0][0]
        schemas = written.registry([away])
        waits = written.decoded(written.payloads, schemas=schemas)
        assert waits.waiting is not None
        assert waits.columns.num_rows == 0
        schemas.silent = ()
        assert written.decoded(written.payloads, schemas=schemas) == written.decoded(
            written.payloads
        )

    def test_an_id_may_stand_in_a_header(self, written: NamedSchemas) -> None:
        in_front = written.decoded(written.payloads)
        assert written.decoded(written.payloads, in_header=True) == in_front

    def test_an_id_that_nobody_has_harms_nobody(self, written: NamedSchemas) -> None:
        first, *others = written.payloads
        found = written.decoded([(_NOBODY_HAS, first[1]), *others])
        alone = written.decoded(others)
        assert found.columns == alone.columns
        assert found.undecoded[0].row == 0
        assert str(_NOBODY_HAS) in found.undecoded[0].reason
