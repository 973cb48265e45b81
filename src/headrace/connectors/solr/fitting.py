"""Whether a collection is what its sink describes: with its fields, and a chain for its updates.

It is looked at, and neither made nor altered: of which nodes, shards and analyzers it is made is
for its owners to say. What is missing is told as what is to be sent to Solr.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final
from xml.etree import ElementTree

import orjson

from headrace.connectors.newest import VERSION
from headrace.connectors.solr.documents import ID, NEWNESS
from headrace.connectors.solr.library import odd
from headrace.connectors.solr.servers import Solr
from headrace.errors import CodeNotLoaded, ConfigError, SinkRefused, TargetMissing
from headrace.payload.exact import digits_of

#: the chain that documents are written by
CHAIN: Final = "headrace"
_COMPARES: Final = "DocBasedVersionConstraintsProcessorFactory"
#: what that has to say
_SAID: Final[Mapping[str, str]] = {"versionField": NEWNESS, "ignoreOldUpdates": "true"}
_LONGS: Final = ("LongPointField", "TrieLongField")
#: kind of a column -> classes of fields that keep all it has; the first is that of the type behind
_CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("StrField", "TextField", "SortableTextField"),
    "bigint": _LONGS,
    VERSION: _LONGS,
    "double": ("DoublePointField", "TrieDoubleField"),
    "boolean": ("BoolField",),
    "bytes": ("BinaryField",),
    "timestamp": ("DatePointField", "TrieDateField"),
    "date": ("DatePointField", "TrieDateField"),
}
#: a class -> the name that its type has where nobody named it otherwise
_TYPES: Final[Mapping[str, str]] = {
    "StrField": "string",
    "LongPointField": "plong",
    "DoublePointField": "pdouble",
    "BoolField": "boolean",
    "BinaryField": "binary",
    "DatePointField": "pdate",
}


def fit(solr: Solr, collection: str, columns: Mapping[str, str]) -> None:
    """See that the collection is there, with its fields and its chain.

    Raises:
        ConfigError: it is not; the message says what is to be done.
        SinkUnavailable: Solr does not answer.
    """
    where = f"{solr.where}: collection {collection}"
    try:
        schema = solr.asked(f"/{collection}/schema")
        config = solr.read(f"/{collection}/admin/file?file=solrconfig.xml")
    except (TargetMissing, SinkRefused, CodeNotLoaded) as error:
        raise ConfigError(f"{where}: {error}") from error
    try:
        of_fields = _problem_of_fields(schema["schema"], {**columns, NEWNESS: "bigint"})
        of_chain = _problem_of_chain(config)
    except (LookupError, TypeError, AttributeError, ElementTree.ParseError) as error:
        raise odd(where) from error
    if of_chain:
        told = "write it in its solrconfig.xml as docs/sinks.md shows it"
        raise ConfigError(f"{where} {of_chain}: {told}, and reload it")
    if of_fields:
        raise ConfigError(f"{where}: {of_fields}")


def demand(solr: Solr) -> None:
    """See that there is a Solr, whose collections are looked at later.

    Raises:
        ConfigError: it lets nobody in.
        SinkUnavailable: it does not answer.
    """
    try:
        solr.asked("/admin/info/system")
    except (TargetMissing, CodeNotLoaded) as error:
        raise ConfigError(str(error)) from error


def _problem_of_fields(schema: Any, columns: Mapping[str, str]) -> str | None:
    if schema["uniqueKey"] != ID:
        return f"its uniqueKey is {schema['uniqueKey']!r}, and has to be {ID!r}"
    classes = {of["name"]: of["class"].rpartition(".")[2] for of in schema["fieldTypes"]}
    there = {field["name"]: field["type"] for field in schema["fields"]}
    dynamic = {field["name"]: field["type"] for field in schema.get("dynamicFields", ())}
    missing = []
    for name, kind in columns.items():
        fitting = ("StrField",) if digits_of(kind) is not None else _CLASSES[kind]
        found = there.get(name) or _matching(name, dynamic)
        if found is None:
            missing.append({"name": name, "type": _TYPES[fitting[0]]})
        elif classes[found] not in fitting:
            return f"field {name!r} is {classes[found]}, and a {kind} is kept by {fitting[0]} alone"
    if not missing:
        return None
    told = orjson.dumps({"add-field": missing}).decode()
    return f"it lacks fields: add them, as by a POST to its /schema of {told}"


def _matching(name: str, dynamic: Mapping[str, str]) -> str | None:
    """The type of the longest pattern that a name has; Solr's has one ``*``, at an end."""
    patterns = [pattern for pattern in dynamic if fnmatchcase(name, pattern)]
    return dynamic[max(patterns, key=len)] if patterns else None


def _problem_of_chain(config: bytes) -> str | None:
    path = f"updateRequestProcessorChain[@name='{CHAIN}']/processor"
    parts = ElementTree.fromstring(config).findall(path)  # noqa: S314 - whose documents these are
    part = next((one for one in parts if one.get("class", "").endswith(f".{_COMPARES}")), None)
    if part is None:
        return f"has no update chain {CHAIN!r} with {_COMPARES}"
    said = {one.get("name"): (one.text or "").strip() for one in part}
    for name, needed in _SAID.items():
        if said.get(name) != needed:
            return f"has an update chain {CHAIN!r} without {name} {needed}"
    return None
