"""Who may ask what: one table of routes, and nothing else is answered.

A route has its rights beside it, so none can be forgotten. Of a subject that is not the caller's,
looks are answered as if it were not there, and changes with 403, whether it is there or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from headrace.model.credentials import Role
from headrace.schema_registry import answers, settings_answers
from headrace.schema_registry.asked import Asked
from headrace.schema_registry.registry import SchemaRegistry

Roles = frozenset[Role]
Handler = Callable[[SchemaRegistry, Asked], Any]

#: whoever has a key; of a tenant what is its own
ALL: Roles = frozenset(Role)
OPERATOR: Roles = frozenset({Role.OPERATOR})
#: whoever writes records, or builds what does; of a tenant under subjects of its own
WRITING: Roles = frozenset({Role.OPERATOR, Role.TENANT, Role.SENDER, Role.SCHEMAS})
#: whoever decides what holds for a subject, a tenant for its own
DECIDING: Roles = frozenset({Role.OPERATOR, Role.TENANT})


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    roles: Roles
    handle: Handler
    #: noted in the audit log, and refused where the subject is another's
    changes: bool = False
    #: has a schema looked at, or many: like changes, a tenant may ask for so many in a minute
    looks: bool = False
    #: may be long: a tenant has one at a time, and each counts as a look
    lists: bool = False

    def parts(self, segments: Sequence[str]) -> dict[str, str] | None:
        """What the path is filled with; None: it is another path."""
        template = self.path.strip("/").split("/") if self.path != "/" else []
        if len(template) != len(segments):
            return None
        found: dict[str, str] = {}
        for wanted, given in zip(template, segments, strict=True):
            if wanted.startswith("{"):
                found[wanted[1:-1]] = given
            elif wanted != given:
                return None
        return found


_SUBJECT = "/subjects/{subject}"
_VERSION = f"{_SUBJECT}/versions/{{version}}"
_CHECK = "/compatibility/subjects/{subject}/versions"

ROUTES: tuple[Route, ...] = (
    Route("GET", "/", ALL, answers.root),
    Route("GET", "/contexts", ALL, answers.contexts),
    Route("GET", "/subjects", ALL, answers.subjects, lists=True),
    Route("POST", _SUBJECT, ALL, answers.look_up, looks=True),
    Route("DELETE", _SUBJECT, DECIDING, answers.delete_subject, changes=True),
    Route("GET", f"{_SUBJECT}/versions", ALL, answers.versions),
    Route("POST", f"{_SUBJECT}/versions", WRITING, answers.register, changes=True),
    Route("GET", _VERSION, ALL, answers.version),
    Route("DELETE", _VERSION, DECIDING, answers.delete_version, changes=True),
    Route("GET", f"{_VERSION}/schema", ALL, answers.version_text),
    Route("GET", f"{_VERSION}/referencedby", ALL, answers.referenced_by, looks=True),
    Route("GET", "/schemas", ALL, answers.schemas, lists=True),
    Route("GET", "/schemas/types", ALL, answers.types),
    Route("GET", "/schemas/ids/{id}", ALL, answers.schema_by_id),
    Route("GET", "/schemas/ids/{id}/schema", ALL, answers.schema_text_by_id),
    Route("GET", "/schemas/ids/{id}/subjects", ALL, answers.subjects_of_id, looks=True),
    Route("GET", "/schemas/ids/{id}/versions", ALL, answers.versions_of_id, looks=True),
    Route("GET", "/schemas/guids/{guid}", ALL, answers.schema_by_guid),
    Route("POST", _CHECK, ALL, answers.check, looks=True),
    Route("POST", f"{_CHECK}/{{version}}", ALL, answers.check_version, looks=True),
    Route("GET", "/config", ALL, settings_answers.config),
    Route("PUT", "/config", OPERATOR, settings_answers.set_config, changes=True),
    Route("DELETE", "/config", OPERATOR, settings_answers.delete_config, changes=True),
    Route("GET", "/config/{subject}", ALL, settings_answers.config_of_subject),
    Route("PUT", "/config/{subject}", DECIDING, settings_answers.set_config, changes=True),
    Route("DELETE", "/config/{subject}", DECIDING, settings_answers.delete_config, changes=True),
    Route("GET", "/mode", ALL, settings_answers.mode),
    Route("PUT", "/mode", OPERATOR, settings_answers.set_mode, changes=True),
    Route("DELETE", "/mode", OPERATOR, settings_answers.delete_mode, changes=True),
    Route("GET", "/mode/{subject}", ALL, settings_answers.mode_of_subject),
    Route("PUT", "/mode/{subject}", OPERATOR, settings_answers.set_mode, changes=True),
    Route("DELETE", "/mode/{subject}", OPERATOR, settings_answers.delete_mode, changes=True),
)


def segments_of(raw_path: bytes) -> list[str]:
    """The parts of a path, each decoded by itself: a subject may have a slash in it."""
    parts = raw_path.partition(b"?")[0].decode("latin-1").strip("/").split("/")
    found = [unquote(part, errors="replace") for part in parts if part]
    if found[:2] == ["contexts", "."] or found[:2] == ["contexts", ":.:"]:
        found = found[2:]
    return found


def routes_of(segments: Sequence[str]) -> list[tuple[Route, dict[str, str]]]:
    """The routes of a path, by whatever method."""
    found = ((route, route.parts(segments)) for route in ROUTES)
    # What is written out goes before what is filled in.
    both = [(route, parts) for route, parts in found if parts is not None]
    least = min((len(parts) for _, parts in both), default=0)
    return [(route, parts) for route, parts in both if len(parts) == least]
