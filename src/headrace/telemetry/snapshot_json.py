"""Snapshots read from JSON, and plans written as JSON, for people.

A plan depends on its snapshot alone, so anyone can ask "what would you do?" with a file:
`headrace plan snapshot.json`. Such files are written by hand, so whatever has a default may be
left out, whatever is not known is refused rather than passed over, and every complaint names the
key it is about.

The forms are the dataclasses of ``headrace.model``, read through pydantic; nothing is said twice.
A stream or a lane is an object such as ``{"use_case": "score", "tenant": "acme"}``. A place is a
string of its digits: as a number, many who read JSON would keep 53 bits of it. The schemas in
`docs/schemas` are made from the same classes: `python -m headrace.telemetry.snapshot_json` writes
them anew, and a test holds them equal.

What a snapshot means is not judged here beyond plain nonsense (a position past the end): that is
the planner's matter.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NewType

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from headrace.errors import ConfigError
from headrace.model.lane_names import place_of
from headrace.model.places import UNKNOWN, Place, read_place, text_of
from headrace.model.plans import LaneView, Plan, Snapshot, StreamView

# Under a name of their own the classes take this configuration, without knowing of pydantic.
_SnapshotForm = NewType("_SnapshotForm", Snapshot)
_PlanForm = NewType("_PlanForm", Plan)
_CONFIG = ConfigDict(
    extra="forbid",
    strict=True,
    allow_inf_nan=False,
    json_schema_serialization_defaults_required=True,
)
_SNAPSHOTS: TypeAdapter[_SnapshotForm] = TypeAdapter(_SnapshotForm, config=_CONFIG)
_PLANS: TypeAdapter[_PlanForm] = TypeAdapter(_PlanForm, config=_CONFIG)

#: keys of places; no other key has one of these names
_LANES, _PARENTS, _SLICES = ("position", "end"), ("at", "until"), ("from_offset", "until_offset")
PLACES = {*_LANES, *_PARENTS, *_SLICES}
#: as `UNKNOWN` and every place are written
_PLACE_FORM = {"type": "string", "pattern": "^(-1|0|[1-9][0-9]{0,76})$"}

#: problems named in one message; the rest is counted
_SHOWN = 8
_SHORTER = {
    "extra_forbidden": "unknown key",
    "unexpected_keyword_argument": "unknown key",
    "missing": "missing",
    "missing_argument": "missing",
}


def snapshot_from_json(text: str) -> Snapshot:
    """Read a snapshot.

    Args:
        text: a JSON object as in `docs/schemas/snapshot.schema.json`.

    Raises:
        ConfigError: it is not JSON, a key is missing, unknown or of the wrong kind, or a number
            makes no sense. The message names each key, such as ``streams[0].lanes[2].end``.
    """
    try:
        snapshot = _SNAPSHOTS.validate_json(_with_numbers(text))
    except ValidationError as exc:
        found = exc.errors(include_url=False, include_input=False)
        raise _refused([(_path(fault["loc"]), _what(fault)) for fault in found]) from exc
    if nonsense := list(_nonsense(snapshot)):
        raise _refused(nonsense)
    return replace(snapshot, streams=tuple(map(_in_order, snapshot.streams)))


def _with_numbers(text: str) -> str:
    """The same JSON with places as they are at run time."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return text  # and is refused as what it is
    wrong = []
    for path, holder, key in _places(whole):
        try:
            holder[key] = _read_place(holder[key])
        except ValueError:
            wrong.append((f"{path}{key}", "is no place: its digits, as a string"))
    if wrong:
        raise _refused(sorted(wrong))
    return json.dumps(whole)


def _places(whole: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Each place of a snapshot: the path of the object that has it, that object, and the key."""
    lanes = list(_within("lanes", _within("streams", [("", whole)])))
    for holders, keys in ((lanes, _LANES), (_within("parents", lanes), _PARENTS)):
        yield from ((path, at, key) for path, at in holders for key in keys if key in at)


def _within(key: str, holders: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects in a list that each of these has under a key, with their paths."""
    for path, holder in holders:
        found = holder.get(key) if isinstance(holder, dict) else None
        for number, item in enumerate(found if isinstance(found, list) else ()):
            if isinstance(item, dict):
                yield f"{path}{key}[{number}].", item


def _read_place(said: Any) -> Place:
    """A place as a file says it.

    Raises:
        ValueError: it is none, or a number.
    """
    return UNKNOWN if said == text_of(UNKNOWN) else read_place(said if type(said) is str else "")


def _in_order(stream: StreamView) -> StreamView:
    return replace(stream, lanes=tuple(sorted(stream.lanes, key=lambda lane: place_of(lane.name))))


def plan_to_json(plan: Plan) -> str:
    """Write a plan in the form of `docs/schemas/plan.schema.json`."""
    return json.dumps(_plain(plan), indent=2, allow_nan=False)


def schemas() -> dict[str, dict[str, Any]]:
    """The JSON Schemas of both forms, by file name."""
    made = {
        "snapshot.schema.json": _SNAPSHOTS.json_schema(schema_generator=_Forms, mode="validation"),
        # What we write has every key, so a reader may count on them.
        "plan.schema.json": _PLANS.json_schema(schema_generator=_Forms, mode="serialization"),
    }
    return {name: {"$schema": _Forms.schema_dialect, **form} for name, form in made.items()}


def schema_text(schema: dict[str, Any]) -> str:
    """A schema as it stands in its file."""
    return json.dumps(schema, indent=2) + "\n"


class _Forms(GenerateJsonSchema):
    """JSON Schemas with named tuples as objects, and without titles that repeat the key."""

    def named_tuple_schema(self, schema: core_schema.NamedTupleSchema) -> JsonSchemaValue:
        fields = {
            field["name"]: _PLACE_FORM
            if field["name"] in PLACES
            else self.generate_inner(field["schema"])
            for field in schema["fields"]
        }
        return {
            "type": "object",
            "description": schema["cls"].__doc__,
            "properties": fields,
            "required": list(fields),
            "additionalProperties": False,
        }

    def dataclass_field_schema(self, schema: core_schema.DataclassField) -> JsonSchemaValue:
        place = schema["name"] in PLACES
        return dict(_PLACE_FORM) if place else super().dataclass_field_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: text_of(of) if name in PLACES else _plain(of) for name, of in found.items()}
    if isinstance(value, tuple):
        if hasattr(value, "_asdict"):
            return {
                name: text_of(of) if name in PLACES else of for name, of in value._asdict().items()
            }
        return [_plain(item) for item in value]
    return value


def _refused(problems: list[tuple[str, str]]) -> ConfigError:
    lines = [f"{path}: {what}" if path else what for path, what in problems[:_SHOWN]]
    if len(problems) > _SHOWN:
        lines.append(f"and {len(problems) - _SHOWN} more")
    return ConfigError("snapshot refused: " + "; ".join(lines))


def _path(keys: tuple[int | str, ...]) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(
        "."
    )


def _what(error: Any) -> str:
    message: str = error["msg"]
    return _SHORTER.get(error["type"], message[:1].lower() + message[1:])


def _nonsense(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """What no snapshot can mean, as key and reason."""
    if not snapshot.turn:
        yield "turn", "is empty; wave ids start with it"
    yield from _below("", snapshot, 0, "free_slots")
    counts = ("bins_per_wave", "slice_records", "slice_bytes", "probe_records")
    yield from _below("limits.", snapshot.limits, 1, *counts)
    yield from _below("limits.", snapshot.limits, 0, "min_bin_s", "quick_s")
    yield from _not_above_0("limits.", snapshot.limits, "bin_budget_s", "express_s", "fixed_times")
    seen = set()
    for number, stream in enumerate(snapshot.streams):
        path = f"streams[{number}]."
        if stream.id in seen:
            yield f"{path}id", f"stream {stream.id} is there twice"
        seen.add(stream.id)
        yield from _nonsense_of_stream(path, stream)


def _nonsense_of_stream(path: str, stream: StreamView) -> Iterator[tuple[str, str]]:
    for key, name in (
        ("id.use_case", stream.id.use_case),
        ("id.tenant", stream.id.tenant),
        ("topic", stream.topic),
    ):
        if not name:
            yield f"{path}{key}", "is empty"
    yield from _below(path, stream, 0, "epoch", "allowance_records", "allowance_bytes")
    yield from _not_above_0(path, stream, "weight", "call_limit_s")
    averages = ("seconds_per_record", "bytes_per_record", "seconds_per_slice")
    yield from _not_above_0(f"{path}cost.", stream.cost, *averages)
    yield from _below(
        f"{path}cost.", stream.cost, 0, "spread", "samples", "doubt_slice", "doubt_record"
    )
    told = ("records", "seconds", "weight", "log_records", "log_width")
    yield from _below(f"{path}cost.contrast.", stream.cost.contrast, 0, *told)
    seen = set()
    for number, lane in enumerate(stream.lanes):
        if not lane.name:
            yield f"{path}lanes[{number}].name", "is empty"
        if lane.name in seen:
            yield f"{path}lanes[{number}].name", f"{lane.name} is there twice"
        seen.add(lane.name)
        yield from _nonsense_of_lane(f"{path}lanes[{number}].", lane)


def _nonsense_of_lane(path: str, lane: LaneView) -> Iterator[tuple[str, str]]:
    yield from _below(path, lane, 0, "position")
    yield from _below(path, lane, 1, "every")
    if lane.end < lane.position:
        yield f"{path}end", f"{lane.end} is before the position {lane.position}"


def _below(path: str, holder: object, least: int, *keys: str) -> Iterator[tuple[str, str]]:
    for key in keys:
        value = getattr(holder, key)
        if value is not None and value < least:
            yield f"{path}{key}", f"{value} is below {least}"


def _not_above_0(path: str, holder: object, *keys: str) -> Iterator[tuple[str, str]]:
    for key in keys:
        value = getattr(holder, key)
        if value <= 0:
            yield f"{path}{key}", f"{value} is not above 0"


def main(folder: Path) -> None:
    """Write the schemas into ``folder``."""
    for name, schema in schemas().items():
        (folder / name).write_text(schema_text(schema), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/schemas"))
