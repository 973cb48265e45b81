"""What a schema comes to, and what it breaks: the rules of each language, put together."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import ConfigError
from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry.rules.compatibility import Faults, Level, faults_of
from headrace.schema_registry.rules.texts import BadSchema, Compared, Form

#: characters that a schema may come to; whoever asks has to hold them
MOST_OF_FORM = 8_000_000


def form_of(schema: WrittenSchema) -> Form:
    """The texts by which it is told whether two schemas are the same.

    Raises:
        BadSchema: it is none.
        ConfigError: what reads this language is not installed.
    """
    try:
        schema.text.encode()
    except UnicodeEncodeError as exc:
        raise BadSchema("it is not whole text: there is half a character in it") from exc
    try:
        form = _form(schema)
    except ImportError as exc:
        raise _missing(exc) from exc
    except RecursionError as exc:
        raise BadSchema("too much is inside one another") from exc
    if len(form.canonical) + len(form.normalized) + len(form.serialized) > MOST_OF_FORM:
        raise BadSchema(
            f"it is too large to be judged: with all names written out it comes to more than "
            f"{MOST_OF_FORM} characters"
        )
    return form


def faults_among(new: WrittenSchema, before: Sequence[Compared], level: Level) -> list[str]:
    """What a new schema breaks of the versions before; empty: nothing.

    Raises:
        BadSchema: it is no schema.
        ConfigError: what reads this language is not installed.
    """
    try:
        return faults_of(new, before, level, _rules(new.kind))
    except ImportError as exc:
        raise _missing(exc) from exc
    except RecursionError as exc:
        raise BadSchema("too much is inside one another") from exc


def _form(schema: WrittenSchema) -> Form:
    # Each language is imported when it is asked for; who has Avro alone needs no Protobuf.
    match schema.kind:
        case SchemaKind.AVRO:
            from headrace.schema_registry.rules.avro_form import avro_form  # noqa: PLC0415

            return avro_form(schema.text, schema.references)
        case SchemaKind.JSON:
            from headrace.schema_registry.rules.json_form import json_form  # noqa: PLC0415

            return json_form(schema.text, schema.references)
        case SchemaKind.PROTOBUF:
            from headrace.schema_registry.protoc import compiled  # noqa: PLC0415
            from headrace.schema_registry.rules.protobuf_form import protobuf_form  # noqa: PLC0415

            return protobuf_form(schema, compiled)


def _rules(kind: SchemaKind) -> Faults:
    match kind:
        case SchemaKind.AVRO:
            from headrace.schema_registry.rules.avro_rules import avro_faults  # noqa: PLC0415

            return avro_faults
        case SchemaKind.JSON:
            from headrace.schema_registry.rules.json_form import json_faults  # noqa: PLC0415

            return json_faults
        case SchemaKind.PROTOBUF:
            return _protobuf_faults


def _protobuf_faults(reader: WrittenSchema, writer: WrittenSchema) -> list[str]:
    from headrace.schema_registry.protoc import compiled  # noqa: PLC0415
    from headrace.schema_registry.rules.protobuf_form import protobuf_files  # noqa: PLC0415
    from headrace.schema_registry.rules.protobuf_rules import protobuf_faults  # noqa: PLC0415

    return protobuf_faults(protobuf_files(reader, compiled), protobuf_files(writer, compiled))


def _missing(exc: ImportError) -> ConfigError:
    return ConfigError(f"{exc.name} is missing: pip install 'headrace[registry-server]'")
