"""Snapshots are read strictly, by key, and plans written in the form of their schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from headrace.connectors.kafka import OFFSETS
from headrace.errors import ConfigError
from headrace.model.lineage import Ahead
from headrace.model.plans import Credit, LaneView, Plan, Snapshot, StreamView
from headrace.model.streams import LaneId, Order, PassedRange, Slice, StreamId
from headrace.model.waves import Bin, Wave
from headrace.planning import check, plan
from headrace.telemetry.snapshot_json import (
    PLACES,
    main,
    plan_to_json,
    schema_text,
    schemas,
    snapshot_from_json,
)

DOCS = Path(__file__).parents[3] / "docs" / "schemas"
EXAMPLE = (DOCS / "example-snapshot.json").read_text(encoding="utf-8")


def smallest() -> dict[str, Any]:
    return {
        "turn": "t-1",
        "free_slots": 2,
        "streams": [
            {
                "id": {"use_case": "score", "tenant": "acme"},
                "topic": "acme.visits",
                "lanes": [{"name": "acme.visits[0]", "position": "3", "end": "9", "waits": 6}],
            }
        ],
    }


def changed(path: tuple[str | int, ...], value: object) -> str:
    whole: Any = smallest()
    holder = whole
    for key in path[:-1]:
        holder = holder.setdefault(key, {}) if isinstance(holder, dict) else holder[key]
    holder[path[-1]] = value
    return json.dumps(whole)


def test_lanes_are_taken_in_the_order_of_their_names():
    lanes = [
        {"name": f"acme.visits[{at}]", "position": "3", "end": "9", "waits": 6} for at in (10, 2, 0)
    ]
    (view,) = snapshot_from_json(changed((*STREAM, "lanes"), lanes)).streams
    assert [lane.name for lane in view.lanes] == [
        "acme.visits[0]",
        "acme.visits[2]",
        "acme.visits[10]",
    ]


def test_what_has_a_default_may_be_left_out():
    snapshot = snapshot_from_json(json.dumps(smallest()))
    view = snapshot.streams[0]
    assert view == StreamView(StreamId("score", "acme"), "acme.visits", view.lanes)
    assert snapshot == Snapshot("t-1", (view,), 2)


def is_as_said(read: Any, said: Any) -> bool:
    if isinstance(said, dict):
        return all(is_as_said(getattr(read, key), value) for key, value in said.items())
    if isinstance(said, list):
        return len(read) == len(said) and all(map(is_as_said, read, said))
    return bool(read == said or str(read) == said)


def test_every_key_of_a_file_is_read_as_it_stands_there():
    assert is_as_said(snapshot_from_json(EXAMPLE), json.loads(EXAMPLE))


STREAM = ("streams", 0)
LANE = ("streams", 0, "lanes", 0)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("speed",), 1, "speed: unknown key"),
        (("limits", "slots"), 1, "limits.slots: unknown key"),
        ((*STREAM, "id", "topic"), "x", "streams[0].id.topic: unknown key"),
        ((*STREAM, "cost", "seconds"), 1, "streams[0].cost.seconds: unknown key"),
        ((*LANE, "offset"), 1, "streams[0].lanes[0].offset: unknown key"),
        ((*STREAM, "id"), {"tenant": "a"}, "streams[0].id.use_case: missing"),
        ((*STREAM, "lanes"), [{"name": "t[0]"}], "streams[0].lanes[0].end: missing"),
        ((*STREAM, "order"), "any", "streams[0].order: input should be 'lane', 'key', 'stream' or"),
        ((*LANE, "waits"), "9", "streams[0].lanes[0].waits: input should be a valid integer"),
        ((*LANE, "end"), 9, "streams[0].lanes[0].end: is no place: its digits, as a string"),
        ((*LANE, "end"), "9.0", "streams[0].lanes[0].end: is no place: its digits, as a string"),
        ((*LANE, "end"), "9" * 5000, "streams[0].lanes[0].end: is no place: its digits, as a"),
        ((*LANE, "parents"), [{"at": 1}], "streams[0].lanes[0].parents[0].at: is no place"),
        ((*STREAM, "weight"), float("nan"), "streams[0].weight: input should be a finite"),
        ((*LANE, "end"), "2", "streams[0].lanes[0].end: 2 is before the position 3"),
        ((*LANE, "position"), "-1", "streams[0].lanes[0].position: -1 is below 0"),
        ((*LANE, "name"), "", "streams[0].lanes[0].name: is empty"),
        ((*STREAM, "allowance_records"), -1, "streams[0].allowance_records: -1 is below 0"),
        ((*STREAM, "weight"), 0, "streams[0].weight: 0.0 is not above 0"),
        ((*STREAM, "topic"), "", "streams[0].topic: is empty"),
        ((*STREAM, "cost", "seconds_per_record"), 0, "cost.seconds_per_record: 0.0 is not above"),
        (("limits", "bin_budget_s"), 0, "limits.bin_budget_s: 0.0 is not above 0"),
        (("limits", "probe_records"), 0, "limits.probe_records: 0 is below 1"),
        (("limits", "min_bin_s"), -1, "limits.min_bin_s: -1.0 is below 0"),
        (("limits", "quick_s"), -0.1, "limits.quick_s: -0.1 is below 0"),
        (("limits", "express_s"), 0, "limits.express_s: 0.0 is not above 0"),
        (("free_slots",), -1, "free_slots: -1 is below 0"),
        (("turn",), "", "turn: is empty"),
    ],
)
def test_a_refusal_names_the_key_and_what_was_wrong(
    path: tuple[str | int, ...], value: object, said: str
):
    with pytest.raises(ConfigError) as refused:
        snapshot_from_json(changed(path, value))
    assert said in str(refused.value)


def test_a_stream_or_lane_named_twice_is_refused():
    twice = smallest()
    twice["streams"].append(smallest()["streams"][0])
    twice["streams"][0]["lanes"] *= 2
    with pytest.raises(ConfigError) as refused:
        snapshot_from_json(json.dumps(twice))
    assert "streams[0].lanes[1].name: acme.visits[0] is there twice" in str(refused.value)
    assert "streams[1].id: stream acme/score is there twice" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"), [("", "invalid JSON"), ("{", "invalid JSON"), ("[]", "an object")]
)
def test_what_is_no_json_object_is_refused(text: str, said: str):
    with pytest.raises(ConfigError, match=said):
        snapshot_from_json(text)


def test_a_long_list_of_problems_is_cut():
    many = smallest() | {f"key{number}": 0 for number in range(20)}
    with pytest.raises(ConfigError, match=r"and 12 more$"):
        snapshot_from_json(json.dumps(many))


def test_the_schemas_in_the_docs_are_those_of_the_code():
    for name, schema in schemas().items():
        kept = (DOCS / name).read_text(encoding="utf-8")
        assert kept == schema_text(schema), "run: python -m headrace.telemetry.snapshot_json"


def test_the_schemas_can_be_written_anew(tmp_path: Path):
    main(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(schemas())


def test_the_schema_takes_what_the_code_takes_and_refuses_unknown_keys():
    judge = jsonschema_rs.Draft202012Validator(schemas()["snapshot.schema.json"])
    assert judge.is_valid(json.loads(EXAMPLE))
    assert judge.is_valid(smallest())
    snapshot_from_json(json.dumps(smallest()))
    assert not judge.is_valid(smallest() | {"speed": 1})


def test_places_are_as_wide_as_a_log_needs_and_written_as_they_were_read():
    """A number of JSON keeps 53 bits for many who read it."""
    at, end = "9" * 56, "9" * 56 + "5"
    asked: Any = smallest()
    parents = [{"lane": "old", "at": at, "until": end}, {"lane": "older", "at": "-1", "until": "7"}]
    lane = {"name": "shard-1", "position": at, "end": end, "waits": 5, "parents": parents}
    asked["streams"][0]["lanes"] = [lane]
    (view,) = snapshot_from_json(json.dumps(asked)).streams
    (read,) = view.lanes
    assert (read.position, read.end) == (int(at), int(end))
    assert read.parents == (Ahead("old", int(at), int(end)), Ahead("older", -1, 7))
    piece = Slice(LaneId("score", "acme", "shard-1"), "acme.visits", int(at), int(end), epoch=1)
    text = plan_to_json(Plan((Wave("t-1-0", "score", (Bin((piece,), 0.25),), 1.0),), ()))
    assert f'"from_offset": "{at}"' in text
    assert f'"until_offset": "{end}"' in text


def test_what_is_a_place_in_the_classes_is_a_string_in_the_forms():
    assert {
        name
        for of in (LaneView, StreamView, Snapshot, Slice, Bin, Wave, Credit, Plan, Ahead)
        for name, kind in of.__annotations__.items()
        if "Place" in str(kind)
    } == PLACES


def test_a_plan_is_written_in_the_form_of_its_schema():
    piece = Slice(
        LaneId("score", "acme", "acme.visits[0]"), "acme.visits", 3, 9, epoch=1, more=True
    )
    wave = Wave("t-1-0", "score", (Bin((piece,), 0.25),), 1.0)
    text = plan_to_json(Plan((wave,), (Credit(StreamId("score", "acme"), 0.5),)))
    written = json.loads(text)
    jsonschema_rs.validate(schemas()["plan.schema.json"], written)
    assert written["waves"][0]["bins"][0]["slices"][0] == {
        "lane": {"use_case": "score", "tenant": "acme", "name": "acme.visits[0]"},
        "topic": "acme.visits",
        "from_offset": "3",
        "until_offset": "9",
        "epoch": 1,
        "more": True,
        "depth": 0,
        "records": 0,
        "most_bytes": 0,
        "ordinal": 0,
        "passed_range": None,
        "note": "",
    }
    assert written["credits"] == [
        {"stream": {"use_case": "score", "tenant": "acme"}, "credit_s": 0.5}
    ]


def test_the_example_shows_each_kind_of_stream_and_has_a_plan_without_fault():
    snapshot = snapshot_from_json(EXAMPLE)
    tenants = {view.id.tenant: view for view in snapshot.streams}
    assert set(tenants) == {"whale", "quiet", "slow", "strict", "throttled"}
    assert tenants["strict"].order is Order.STREAM
    made = plan(snapshot, OFFSETS)
    assert made.waves
    assert list(check(snapshot, made, OFFSETS)) == []
    jsonschema_rs.validate(schemas()["plan.schema.json"], json.loads(plan_to_json(made)))


def test_what_was_passed_over_before_a_slice_is_written_as_places_are():
    passed = PassedRange(int("7" * 56), int("8" * 56))
    end = int("9" * 56)
    piece = Slice(
        LaneId("score", "acme", "shard-1"), "t", passed.until_offset, end, 1, passed_range=passed
    )
    text = plan_to_json(Plan((Wave("t-1-0", "score", (Bin((piece,), 0.25),), 1.0),), ()))
    written = json.loads(text)
    jsonschema_rs.validate(schemas()["plan.schema.json"], written)
    (found,) = written["waves"][0]["bins"][0]["slices"]
    assert found["passed_range"] == {"from_offset": "7" * 56, "until_offset": "8" * 56}
