"""Whether what one Avro schema wrote can be read by another: Apache's own rules.

``avro.compatibility`` is the Python form of the Java class that Confluent's registry asks, so the
answers are the same: aliases of the reader count, an enum may lack symbols if it has a default, a
union is read branch by branch, a name counts without its namespace. Logical types do not count, nor
scale and precision of a decimal, though a use case refuses records of another one: clients are not
to find this registry different from Confluent's. What it says comes without a place within unions,
so a place may be a coarse one. The whole, which it names beside some places, is no place.
"""

from __future__ import annotations

from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry.rules.avro_form import avro_schema


def avro_faults(reader: WrittenSchema, writer: WrittenSchema) -> list[str]:
    """Why what ``writer`` wrote cannot be read as ``reader``; empty: it can."""
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    found = checker.get_compatibility(
        avro_schema(reader.text, reader.references), avro_schema(writer.text, writer.references)
    )
    if found.compatibility is SchemaCompatibilityType.compatible:
        return []
    kinds = ", ".join(sorted({kind.value.upper() for kind in found.incompatibilities}))
    where = ", ".join(sorted(found.locations - {"/"}) or ["/"])
    said = "; ".join(sorted(found.messages))
    return [f"{kinds} at {where}: {said}"]
