"""What a store in memory keeps of a schema registry."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.ports.schema_subjects import KeptSchema, SubjectSetting, SubjectVersion


@dataclass(slots=True)
class KeptSchemas:
    """Schemas, versions and settings."""

    newest_id: int = 0
    schemas: dict[int, KeptSchema] = field(default_factory=dict)
    #: id by digest
    digests: dict[bytes, int] = field(default_factory=dict)
    versions: dict[tuple[str, int], SubjectVersion] = field(default_factory=dict)
    #: by subject, None for all, and setting
    settings: dict[tuple[str | None, SubjectSetting], str] = field(default_factory=dict)
