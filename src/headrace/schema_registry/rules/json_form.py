"""What a JSON Schema is, its canonical text, and whether one takes all that another takes.

``jsonschema-rs`` judges all of it: that a text is a schema of its draft, that what it refers to is
there, and by ``covers`` whether every value of one schema is a value of another. That is what
compatibility is: a new version is backward compatible if it takes every value that the old one
took, whatever keywords say so. Where the library cannot tell, the answer is no, with a message
that says so.

Nothing is ever fetched from elsewhere. By which draft a schema is read without ``$schema`` is told
in ``payload/json_drafts``, for all who read one. What ``default`` says changes no value, so a
required member that is new is incompatible with one too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import jsonschema_rs

from headrace.payload.json_drafts import with_drafts
from headrace.ports.schemas import WrittenSchema
from headrace.schema_registry.rules.texts import BadSchema, Form, json_of, json_text, without_layout

_MOST_WORDS = 600
_NOT_JUDGED = (
    "NOT_JUDGED: it cannot be judged whether every value of the other schema is taken, so it "
    "counts as incompatible"
)

#: references that lead into other texts, or back to where they are
_NOT_COMPARED = (
    jsonschema_rs.canonical.IncompatibleOperands,
    jsonschema_rs.canonical.UnsupportedOperand,
)


class NotComparedError(Exception):
    """The library ends its process over such a schema, where it would compare it."""


def json_form(text: str, references: Sequence[tuple[str, str]] = ()) -> Form:
    """The canonical text of a JSON Schema.

    Raises:
        BadSchema: it is none.
    """
    with suppress(NotComparedError):
        canonical_schema(*_trees(text, references))
    return Form(*without_layout(text))


def canonical_schema(tree: Any, others: Mapping[str, Any]) -> jsonschema_rs.CanonicalSchema:
    """A schema as the library compares it; it and what it refers to name their drafts.

    Raises:
        BadSchema: it is none, or refers to what is not there.
        NotComparedError: it is one, and is not compared with any other.
    """
    if not isinstance(tree, dict | bool):
        raise BadSchema("a JSON Schema is an object, or true or false")
    options: dict[str, Any] = {"draft": jsonschema_rs.Draft7} if isinstance(tree, bool) else {}
    try:
        registry = jsonschema_rs.Registry([*others.items()])
        jsonschema_rs.validator_for(tree, registry=registry, offline=True, validate_formats=False)
        if any(map(_has_unevaluated, (tree, *others.values()))):
            # What leads back to itself is left where it is.
            whole = jsonschema_rs.dereference(tree, registry=registry, offline=True)
            if _refers(whole):
                raise NotComparedError
        return jsonschema_rs.canonicalize(
            tree, registry=registry, offline=True, validate_formats=False, **options
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as exc:
        words = str(getattr(exc, "message", exc))[:_MOST_WORDS]
        raise BadSchema(f"it is no JSON Schema: {words}") from exc
    except (jsonschema_rs.canonical.CanonicalizationError, ValueError) as exc:
        raise BadSchema(f"it is no JSON Schema: {str(exc)[:_MOST_WORDS]}") from exc


def json_faults(reader: WrittenSchema, writer: WrittenSchema) -> list[str]:
    """Why a value that ``writer`` takes may be refused by ``reader``; empty: none is."""
    try:
        new, old = _whole_schema(reader), _whole_schema(writer)
        covers = new.covers(old)
    except (*_NOT_COMPARED, NotComparedError):
        return [_NOT_JUDGED]
    match covers:
        case jsonschema_rs.canonical.Containment.YES:
            return []
        case jsonschema_rs.canonical.Containment.NO:
            return [
                f"NOT_COVERED: there are values that only the other schema takes{_lost(old, new)}"
            ]
        case _:
            return [_NOT_JUDGED]


def _whole_schema(written: WrittenSchema) -> jsonschema_rs.CanonicalSchema:
    """A schema with the texts that it refers to put in their places: the library compares no other.

    Only where that changes nothing: not where a text leads back to itself, since a place in it
    would come to mean one in the whole, and not where a reference has something beside it.
    """
    tree, others = _trees(written.text, written.references)
    if others and all(map(_is_replaceable, (tree, *others.values()))):
        canonical_schema(tree, others)
        registry = jsonschema_rs.Registry([*others.items()])
        whole = jsonschema_rs.dereference(tree, registry=registry, offline=True)
        if not _refers(whole):
            return canonical_schema(whole, {})
    return canonical_schema(tree, others)


def _trees(text: str, references: Sequence[tuple[str, str]]) -> tuple[Any, dict[str, Any]]:
    return with_drafts(json_of(text), {name: json_of(other) for name, other in references})


def _refers(tree: Any) -> bool:
    """Whether a text may refer to anything; one that only has the word for it does too."""
    if isinstance(tree, dict):
        return "$ref" in tree or any(map(_refers, tree.values()))
    return isinstance(tree, list) and any(map(_refers, tree))


def _has_unevaluated(tree: Any) -> bool:
    if isinstance(tree, dict):
        own = any(word.startswith("unevaluated") for word in tree)
        return own or any(map(_has_unevaluated, tree.values()))
    return isinstance(tree, list) and any(map(_has_unevaluated, tree))


def _is_replaceable(tree: Any) -> bool:
    """Whether each reference stands alone, and none is within a value that is only compared."""
    if isinstance(tree, dict):
        if "$ref" in tree:
            return tree.keys() <= {"$ref", "$schema"}
        if any(_refers(tree.get(word)) for word in ("const", "enum")):
            return False
        return all(map(_is_replaceable, tree.values()))
    return not isinstance(tree, list) or all(map(_is_replaceable, tree))


def _lost(old: jsonschema_rs.CanonicalSchema, new: jsonschema_rs.CanonicalSchema) -> str:
    """The values that are lost, as a schema, if the library can say them."""
    try:
        lost = json_text(old.subtract(new).to_json_schema(), sort=False)
    except Exception:
        return ""
    return f": {lost[:_MOST_WORDS]}"
