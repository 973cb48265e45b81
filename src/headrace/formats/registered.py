"""How the schema of what one writes comes by its id: what all formats with a registered one share.

By the names that Confluent's clients have for it, with ``_`` in the place of dots. Nobody is asked
here.
"""

from __future__ import annotations

from typing import TypedDict, get_args

from headrace.errors import ConfigError
from headrace.ports import IdPlaces, Registering, SchemaToRegister, SubjectNames, WrittenSchema


class HowRegistered(TypedDict, total=False):
    """What one may say beside a schema."""

    #: register it where it is not; else it has to be there
    auto_register_schemas: bool
    #: write by the newest schema of the subject
    use_latest_version: bool
    #: the registry is to see that two texts mean the same
    normalize_schemas: bool
    #: ``<topic>-value`` (``TopicNameStrategy``), or named after the record, or after both
    subject_name_strategy: SubjectNames
    #: its id before each payload, or its GUID in a header (``HeaderSchemaIdSerializer``)
    schema_id_serializer: IdPlaces


def to_register(  # noqa: PLR0913 - each is a word of Confluent's clients
    schema: WrittenSchema,
    record: str,
    *,
    auto_register_schemas: bool = True,
    use_latest_version: bool = False,
    normalize_schemas: bool = False,
    subject_name_strategy: SubjectNames = "TopicNameStrategy",
    schema_id_serializer: IdPlaces = "PrefixSchemaIdSerializer",
) -> SchemaToRegister:
    """A schema that is to have an id; see ``HowRegistered``.

    Raises:
        ConfigError: a word is none, or subjects are named after a record that has no name.
    """
    _refuse_other("subject_name_strategy", subject_name_strategy, get_args(SubjectNames))
    _refuse_other("schema_id_serializer", schema_id_serializer, get_args(IdPlaces))
    if not record and subject_name_strategy != "TopicNameStrategy":
        raise ConfigError(
            f"subject_name_strategy {subject_name_strategy!r} needs the name of the record, which "
            "in a JSON Schema is its title"
        )
    how = Registering(auto_register_schemas, use_latest_version, normalize_schemas)
    return SchemaToRegister(schema, record, subject_name_strategy, how, schema_id_serializer)


def _refuse_other(what: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        raise ConfigError(f"{what} {found!r} is none of {', '.join(known)}")
