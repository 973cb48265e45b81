"""By which draft a JSON Schema is read that names none.

Drafts differ in what a word means: `prefixItems` says nothing in draft 7, and a list under `items`
nothing later. Were a registry to compare versions by one draft and a gateway to judge events by
another, a version would be compatible that breaks a consumer. So whoever reads a schema of a
registry takes it from here: without ``$schema`` it is draft 7, as in Confluent's registry and its
serializers for Java; and what it refers to is of its draft, unless that names one too.

A text that is no object has no words, and is left as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES = "$schema"
_IF_NONE = "http://json-schema.org/draft-07/schema#"


def with_drafts(tree: Any, others: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A parsed schema, and by name what it refers to, each with the name of its draft."""
    named = _named(tree, _IF_NONE)
    draft = named[_NAMES] if isinstance(named, Mapping) else _IF_NONE
    return named, {name: _named(other, draft) for name, other in others.items()}


def _named(tree: Any, draft: object) -> Any:
    return {_NAMES: draft, **tree} if isinstance(tree, Mapping) else tree
