"""Whether an index is what its sink describes: made if it is not there, else looked at.

An index is made behind an alias of the name, so that it can be made anew, with other types, and
take the name over. One that is there is not altered. Documents are only ever written through the
alias: where it is gone nothing is written, and no index made that guesses types.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from headrace.connectors.newest import VERSION
from headrace.connectors.search.library import MISSING, odd, translated
from headrace.connectors.search.servers import Cluster
from headrace.errors import CodeNotLoaded, ConfigError, HeadraceError, TargetMissing
from headrace.payload.exact import digits_of

log = structlog.get_logger(__name__)

#: kind of a column -> field of an index that is made
_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "text": {"type": "text", "fields": {"exact": {"type": "keyword", "ignore_above": 8000}}},
    "bigint": {"type": "long"},
    "double": {"type": "double"},
    "boolean": {"type": "boolean"},
    "bytes": {"type": "binary"},
    "timestamp": {"type": "date", "format": "strict_date_optional_time_nanos"},
    "date": {"type": "date", "format": "strict_date"},
    VERSION: {"type": "long"},
}
#: types of fields that keep what a kind has, beside that of one that is made
_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "text": ("keyword", "match_only_text", "wildcard"),
    "timestamp": ("date_nanos",),
}
_THERE: Final = "resource_already_exists_exception"


@dataclass(frozen=True, slots=True)
class Shape:
    """What an index is to be like."""

    columns: tuple[tuple[str, str], ...]
    shards: int
    copies: int

    @property
    def body(self) -> dict[str, Any]:
        """What makes it, but for its alias."""
        return {
            "settings": {"number_of_shards": self.shards, "number_of_replicas": self.copies},
            "mappings": {
                "dynamic": "strict",
                "properties": {name: _field(kind) for name, kind in self.columns},
            },
        }


def fit(cluster: Cluster, index: str, shape: Shape) -> None:
    """Make the index with its alias, or see that the one there has the fields.

    Raises:
        ConfigError: it has not, or may not be made.
        SinkUnavailable: no node answers.
    """
    fit_found(cluster, index, shape, mapping_of(cluster, index))


def fit_found(cluster: Cluster, index: str, shape: Shape, found: Mapping[str, Any] | None) -> None:
    """The same for one whose fields were asked for; raises the same."""
    if found is None:
        _make(cluster, index, shape)
        found = mapping_of(cluster, index)
    for name, kind in shape.columns:
        there = (found or {}).get(name, {}).get("type", "object")
        if there not in (_field(kind)["type"], *_OTHERS.get(kind, ())):
            has = f"as {there}" if name in (found or {}) else "nowhere"
            raise ConfigError(
                f"{cluster.where}: index {index} is there with field {name!r} {has}, which is no "
                f"{_field(kind)['type']}: make another index, and let the alias {index} name it"
            )


def demand(cluster: Cluster) -> None:
    """See that there is a cluster, whose indexes are made later.

    Raises:
        ConfigError: it lets nobody in.
        SinkUnavailable: no node answers.
    """
    try:
        cluster.asked("GET", "/")
    except (TargetMissing, CodeNotLoaded) as error:
        raise ConfigError(str(error)) from error


def mapping_of(cluster: Cluster, index: str) -> dict[str, Any] | None:
    """The fields of the index that documents go to; None if there is no such alias.

    Raises:
        ConfigError: it is no alias, or is not told.
        SinkUnavailable: no node answers.
    """
    try:
        found: Any = cluster.raw("GET", f"/{index}/_mapping")
    except Exception as error:
        if getattr(error, "status_code", None) == MISSING:
            return None
        raise _for_a_person(translated(error, cluster.where)) from error
    if not isinstance(found, dict):
        raise odd(f"{cluster.where}: index {index}")
    if index in found:
        raise ConfigError(
            f"{cluster.where}: {index} is an index itself, and has to be an alias: make an alias "
            "of another name for it, and name that one"
        )
    return _fields_of(cluster, index, found)


def _fields_of(cluster: Cluster, index: str, found: dict[str, Any]) -> dict[str, Any]:
    if not found:
        raise ConfigError(
            f"{cluster.where}: it does not tell what index {index} has: let its user see the index "
            "(view_index_metadata)"
        )
    try:
        fields: dict[str, Any] = found[max(found)]["mappings"].get("properties", {})
    except (KeyError, TypeError, AttributeError) as error:
        raise odd(f"{cluster.where}: index {index}") from error
    return fields


def _make(cluster: Cluster, index: str, shape: Shape) -> None:
    body = {**shape.body, "aliases": {index: {"is_write_index": True}}}
    try:
        # That shards are there is waited for by who writes.
        cluster.raw("PUT", f"/{index}.v1?wait_for_active_shards=0", body)
    except Exception as error:
        if _THERE not in str(getattr(error, "error", "")):
            by_hand = f"; let its user make {index}.v1, or make it by hand"
            raise _for_a_person(translated(error, cluster.where), by_hand) from error
        return
    log.info("index made, with its alias", table=f"{index}.v1, {cluster.where}")


def _for_a_person(error: HeadraceError, hint: str = "") -> HeadraceError:
    if isinstance(error, TargetMissing | CodeNotLoaded):
        return ConfigError(f"{error}{hint}")
    return error


def _field(kind: str) -> Mapping[str, Any]:
    # Searched as a number; the document itself keeps every digit.
    return {"type": "double"} if digits_of(kind) is not None else _FIELDS[kind]
