"""JSON Schemas that one writes by: what they take.

Numbers are judged with all of their digits, and so are those of the schema: as a double, a decimal
just above a ``maximum`` would be that.

A pattern is matched in linear time, and one that cannot be, or is large, is refused. What a schema
asks is weighed before it is compiled, which may take as long as to ask it (``json_weight``).
Nothing is fetched: what a schema refers to is in it, or is told with it by the registry.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import jsonschema_rs
import msgspec

from headrace.errors import ConfigError, shortened
from headrace.formats.json_keywords import KEYWORDS
from headrace.formats.json_patterns import BYTES_OF_KIB, LINEAR, UNUSABLE
from headrace.formats.json_weight import Weight, weighed
from headrace.formats.kept import Kept
from headrace.payload.json_drafts import with_drafts
from headrace.ports import SchemaKind, WrittenSchema

_MOST_TOLD = 200


def _exact(number: str) -> Decimal | float:
    """A number with all of its digits, unless it is too large or too small for any double."""
    rounded = float(number)
    return Decimal(number) if rounded and math.isfinite(rounded) else rounded


def _said(number: str) -> Decimal | float:
    """A number of a schema; one without a part is an integer: beside 1.0 all would be doubles."""
    exact = _exact(number)
    return int(exact) if math.isfinite(exact) and exact == int(exact) else exact


#: a JSON text with all digits of its numbers, as a judge looks at it
exactly = msgspec.json.Decoder(float_hook=_exact).decode


@dataclass(frozen=True, slots=True, eq=False)
class JsonJudge:
    """A schema that one writes by."""

    tree: Mapping[str, Any]
    #: what it refers to, by name
    others: Mapping[str, Any]
    validator: jsonschema_rs.Validator
    #: of the schema, for each value that is judged
    weight: Weight
    #: that it takes, about
    bytes: int


#: what is made of a text takes, at most, as often its characters, beside the patterns
_BYTES_OF_CHARACTER = 20
_JUDGES: Kept[WrittenSchema, JsonJudge] = Kept(64 * 1024**2, lambda judge: judge.bytes)


def judge_of(schema: WrittenSchema) -> JsonJudge:
    """What is written by a schema; those met last are kept.

    Raises:
        ConfigError: it is none, or asks for too much.
    """
    return _JUDGES.had(schema, lambda: judge_by(schema))


def judge_by(schema: WrittenSchema) -> JsonJudge:
    """As ``judge_of``, and not kept.

    Raises:
        ConfigError: it is none, or asks for too much.
    """
    tree, others = _trees(schema)
    weight = weighed(tree, others)
    texts = [schema.text, *map("".join, schema.references)]
    size = _BYTES_OF_CHARACTER * sum(map(len, texts)) + BYTES_OF_KIB * weight.patterns
    return JsonJudge(tree, others, _validator(tree, others), weight, size)


def _trees(schema: WrittenSchema) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A schema, and what it refers to by name, parsed; each names its draft."""
    if schema.kind is not SchemaKind.JSON:
        raise ConfigError(f"it is {schema.kind}, and JSON is written")
    try:
        tree = json.loads(schema.text, parse_float=_said)
        others = {name: json.loads(text, parse_float=_said) for name, text in schema.references}
    except (ValueError, RecursionError):
        raise ConfigError("a JSON Schema is no JSON") from None
    if not isinstance(tree, dict):
        raise ConfigError("a JSON Schema that one writes by is an object")
    return with_drafts(tree, others)


def _validator(tree: Mapping[str, Any], others: Mapping[str, Any]) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(
            dict(tree),
            registry=jsonschema_rs.Registry(list(others.items())),
            offline=True,
            pattern_options=LINEAR,
            validate_formats=False,
            keywords=dict(KEYWORDS),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        words = shortened(str(getattr(error, "message", error)), _MOST_TOLD)
        if isinstance(getattr(error, "kind", None), jsonschema_rs.ValidationErrorKind.Format):
            words = f"{words}; {UNUSABLE}"
        raise ConfigError(f"this is no JSON Schema that one can write by: {words}") from error
