"""What holds for a subject, or for all: compatibility, normalizing, modes; told, set and undone."""

from __future__ import annotations

from typing import Any

from headrace.ports.schema_subjects import SubjectSetting
from headrace.schema_registry import refusals
from headrace.schema_registry.asked import Asked, refuse_unknown
from headrace.schema_registry.refusals import Refusal
from headrace.schema_registry.registry import SchemaRegistry
from headrace.schema_registry.rules.compatibility import DEFAULT_LEVEL, Level
from headrace.schema_registry.standing import DEFAULT_MODE, IMPORT, level_of, refuse_read_only

_MODES = (DEFAULT_MODE, "READONLY", "READONLY_OVERRIDE", IMPORT)
_LEVEL, _MODE = SubjectSetting.COMPATIBILITY, SubjectSetting.MODE
_NORMALIZE = SubjectSetting.NORMALIZE


def config(registry: SchemaRegistry, asked: Asked) -> Any:
    """The compatibility that holds for all."""
    seen = registry.subjects.seen("")
    level = seen.global_compatibility or DEFAULT_LEVEL.value
    return {"compatibilityLevel": level, **_said_of_normalize(seen.global_normalize)}


def config_of_subject(registry: SchemaRegistry, asked: Asked) -> Any:
    """The compatibility of a subject."""
    seen = registry.subjects.seen(asked.subject)
    level, normalize = seen.compatibility, seen.normalize
    if asked.flag("defaultToGlobal"):
        level = level_of(seen).value
        normalize = normalize or seen.global_normalize
    elif level is None and normalize is None:
        raise Refusal(
            404,
            40408,
            f"Subject '{asked.subject}' does not have subject-level compatibility configured",
        )
    return {"compatibilityLevel": level or level_of(seen).value, **_said_of_normalize(normalize)}


def set_config(registry: SchemaRegistry, asked: Asked) -> Any:
    """Set the compatibility of a subject, or of all, and whether its schemas are normalized."""
    fields = asked.fields()
    known = {"compatibility", "compatibilityLevel", "normalize"}
    # Whether it validates fields is said by clients that do not ask for it, too.
    refuse_unknown(fields, known if fields.get("validateFields") else known | {"validateFields"})
    subject = asked.parts.get("subject")
    seen = registry.subjects.seen(subject or "")
    refuse_read_only(seen)
    # Of what is not said nothing changes; what holds is the answer.
    wanted = fields.get("compatibility", fields.get("compatibilityLevel"))
    level = level_of(seen) if wanted is None else _level(wanted)
    normalize = fields.get("normalize")
    if not isinstance(normalize, bool | None):
        raise Refusal(422, 422, "normalize is true or false")
    said = None if normalize is None else str(normalize).lower()
    told = {_LEVEL: None if wanted is None else level.value, _NORMALIZE: said}
    values = {setting: value for setting, value in told.items() if value is not None}
    if values:
        registry.set_for(subject, values, asked.sight)
    return {"compatibility": level.value, **_said_of_normalize(said)}


def delete_config(registry: SchemaRegistry, asked: Asked) -> Any:
    """Take back what is set for a subject, or for all; what it was."""
    subject = asked.parts.get("subject")
    seen = registry.subjects.seen(subject or "")
    refuse_read_only(seen)
    if subject is not None and seen.compatibility is seen.normalize is None:
        raise refusals.no_subject(subject)
    own = seen.global_compatibility if subject is None else seen.compatibility
    was = own or level_of(seen).value
    registry.subjects.set_for(subject, {_LEVEL: None, _NORMALIZE: None})
    return {"compatibilityLevel": was}


def mode(registry: SchemaRegistry, asked: Asked) -> Any:
    """The mode that holds for all."""
    return {"mode": registry.subjects.seen("").global_mode or DEFAULT_MODE}


def mode_of_subject(registry: SchemaRegistry, asked: Asked) -> Any:
    """The mode of a subject."""
    seen = registry.subjects.seen(asked.subject)
    if seen.mode is None and not asked.flag("defaultToGlobal"):
        raise Refusal(
            404, 40409, f"Subject '{asked.subject}' does not have subject-level mode configured"
        )
    return {"mode": seen.mode or seen.global_mode or DEFAULT_MODE}


def set_mode(registry: SchemaRegistry, asked: Asked) -> Any:
    """Set the mode of a subject, or of all; a body that says nothing takes it back."""
    fields = asked.fields()
    refuse_unknown(fields, {"mode"})
    wanted = str(fields["mode"]).upper() if fields.get("mode") else None
    if wanted not in (*_MODES, None):
        raise Refusal(422, 42204, f"Invalid mode; there are {', '.join(_MODES)}")
    subject = asked.parts.get("subject")
    seen = registry.subjects.seen(subject or "")
    was = seen.global_mode if subject is None else seen.mode
    must_be_empty = wanted == IMPORT != was and not asked.flag("force")
    sight = asked.sight
    if not registry.set_for(subject, {_MODE: wanted}, sight, only_if_empty=must_be_empty):
        raise refusals.not_permitted(
            "Cannot import since there are versions already; force=true imports beside them"
        )
    above = None if subject is None else seen.global_mode
    return {"mode": wanted or above or DEFAULT_MODE}


def delete_mode(registry: SchemaRegistry, asked: Asked) -> Any:
    """Take back the mode of a subject, or of all; what it was."""
    subject = asked.parts.get("subject")
    seen = registry.subjects.seen(subject or "")
    was = seen.global_mode or DEFAULT_MODE if subject is None else seen.mode
    if was is None:
        raise refusals.no_subject(str(subject))
    registry.subjects.set_for(subject, {_MODE: None})
    return {"mode": was}


def _level(wanted: object) -> Level:
    try:
        return Level(str(wanted).upper())
    except ValueError:
        raise Refusal(
            422, 42203, f"Invalid compatibility level; there are {', '.join(Level)}"
        ) from None


def _said_of_normalize(value: str | None) -> dict[str, bool]:
    return {} if value is None else {"normalize": value == "true"}
