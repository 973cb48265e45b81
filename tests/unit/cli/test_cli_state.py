"""What operators see of state, at the terminal and for programs."""

import json
import re
import shlex
from pathlib import Path

import pytest

from headrace.model.records import Deployment, LaneStart, Move
from headrace.model.state import StateChanges, StateKey, StateSize, number_key
from headrace.model.streams import LaneId, State, StreamId

ROW = b'{"who":"ada","n":9007199254740993,"d":1.10,"odd":"\x7f"}'


def keep(store, stream, rows):
    epoch = store.membership.hold([stream])[stream]
    lane = LaneId(*stream, f"{stream.tenant}.visits[0]")
    size = StateSize(len(rows), sum(map(len, rows.values())) + 3)
    moves = [[Move(lane, 3, 4, epoch)]]
    assert store.positions.advance_groups(moves, [StateChanges(lane, rows, size)]) == [True]


@pytest.fixture
def kept(store):
    seen = {StateKey("seen", b"ada"): ROW, StateKey("seen", number_key(-7)): b'{"n":-7}'}
    keep(store, StreamId("score", "acme"), seen)
    keep(store, StreamId("score", "bolt"), {StateKey("other", b"x"): b"{}"})


@pytest.mark.usefixtures("kept")
def test_the_list_is_by_stream_and_of_one_tenant_by_table(headrace):
    lines = headrace("state", "list").output.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["acme/score", "2", str(len(ROW) + 11)],
        ["bolt/score", "1", "5"],
    ]
    assert headrace("state", "list", "bolt").output.splitlines()[1].split()[:3] == [
        "bolt/score",
        "other",
        "1",
    ]
    told = json.loads(headrace("state", "list", "bolt", "--json").output)
    assert told == [{"stream": "bolt/score", "table": "other", "rows": 1, "bytes": 3}]


def test_where_nothing_is_kept_that_is_said(headrace):
    assert "no stream keeps state" in headrace("state", "list").output
    assert "acme keeps no state" in headrace("state", "list", "acme").output
    assert json.loads(headrace("state", "list", "--json").output) == []


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("name", ["acme/score", "acme"])
def test_a_row_is_shown_by_its_key(headrace, name):
    shown = headrace("state", "show", name, "seen", "--key", "ada").output.splitlines()
    row = ROW.decode().replace("\x7f", r"\x7f")
    assert shown[1].split() == ["acme.visits[0]", row]
    assert len(shown) == 2
    told = headrace("state", "show", name, "seen", "--key", "ada", "--json").output
    assert "9007199254740993" in told
    assert "1.10" in told
    (row,) = json.loads(told)
    assert (row["part"], row["key_hex"], row["row"]["who"]) == ("acme.visits[0]", "616461", "ada")


@pytest.mark.usefixtures("kept")
def test_keys_that_are_numbers_or_bytes_can_be_typed(headrace):
    for words in (["--key", "-7"], ["--key-hex", number_key(-7).hex()]):
        told = json.loads(headrace("state", "show", "acme", "seen", *words, "--json").output)
        assert [row["row"] for row in told] == [{"n": -7}]
    wrong = headrace("state", "show", "acme", "seen", "--key-hex", "f")
    assert (wrong.exit_code != 0, "hexadecimal" in wrong.output) == (True, True)


@pytest.mark.usefixtures("kept")
def test_more_rows_than_are_shown_are_not_kept_silent(headrace):
    shown = headrace("state", "show", "acme", "seen", "--limit", "1").output
    assert "--limit shows more than 1" in shown
    assert "--limit" not in headrace("state", "show", "acme", "seen").output


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["acme/score", "other"], "acme/score has no rows in a state table 'other'; it has seen"),
        (["acme", "other"], "headrace state list acme"),
        (["acme/a/b", "seen"], "is no stream"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(headrace, words, told):
    result = headrace("state", "show", *words)
    assert (result.exit_code != 0, told in " ".join(result.output.split())) == (True, True)
    assert (
        "keeps no row of this key"
        in headrace("state", "show", "acme", "seen", "--key", "bo").output
    )


@pytest.mark.usefixtures("kept")
def test_of_several_streams_with_such_a_table_one_has_to_be_named(headrace, store):
    store.registry.deploy(Deployment("count", "c.py", "ab12", "{tenant}.visits"))
    stream = StreamId("count", "acme")
    store.progress.start_lanes([LaneStart(stream, "id", {"acme.visits[0]": 3})])
    keep(store, stream, {StateKey("seen", b"ada"): b"{}"})
    result = headrace("state", "show", "acme", "seen")
    assert "say which, acme/count or acme/score" in " ".join(result.output.split())


PAGE = (Path(__file__).parents[3] / "docs" / "state.md").read_text()
COMMANDS = [
    re.split(r"\s{2,}", line)[0] for line in PAGE.splitlines() if line.startswith("headrace state ")
]


def test_the_page_has_commands():
    assert len(COMMANDS) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_shows_what_is_kept(headrace, store, command):
    store.registry.deploy(Deployment("visitors", "v.py", "ab12", "{tenant}.visits"))
    stream = StreamId("visitors", "acme")
    store.progress.start_lanes([LaneStart(stream, "id", {"acme.visits[0]": 3})])
    keep(store, stream, {StateKey("seen", b"ada"): b'{"visitor":"ada","visits":3}'})
    result = headrace(*shlex.split(command)[1:])
    assert result.exit_code == 0, result.output
    assert ("ada" if "show" in command else "acme/visitors") in result.output


def typed(headrace, block):
    """Do what a block of the page says, line by line."""
    for line in block.splitlines():
        sent, _, command = line.rpartition(" | ")
        given = sent.removeprefix("printf '").removesuffix("'").replace(r"\n", "\n")
        result = headrace(*shlex.split(command)[1:], input=given)
        assert result.exit_code == 0, result.output


BLOCKS = re.compile(r"```\n([^`]*headrace (?:tenants|streams) remove acme[^`]*)```")
OF_TENANT, OF_STREAM = BLOCKS.findall(PAGE)


@pytest.mark.parametrize(
    ("removed", "block", "left"),
    [
        (("tenants", "remove", "acme", "--yes"), OF_TENANT, State.REMOVED),
        (("streams", "remove", "acme/visitors", "--yes"), OF_STREAM, State.ACTIVE),
        (("use-cases", "remove", "visitors", "--yes"), OF_STREAM, State.ACTIVE),
    ],
)
def test_state_of_what_was_removed_is_there_until_the_page_deletes_it(
    headrace, store, removed, block, left
):
    store.registry.deploy(Deployment("visitors", "v.py", "ab12", "{tenant}.visits"))
    stream = StreamId("visitors", "acme")
    store.progress.start_lanes([LaneStart(stream, "id", {"acme.visits[0]": 3})])
    keep(store, stream, {StateKey("seen", b"ada"): b"{}"})
    assert headrace(*removed).exit_code == 0
    assert "acme/visitors" in headrace("state", "list").output, "what runs may still need it"
    typed(headrace, block)
    assert "no stream keeps state" in headrace("state", "list").output
    states = {known.id: known.state for known in store.registry.streams()}
    assert states[stream] is State.REMOVED
    assert next(of for of in store.registry.tenants() if of.name == "acme").state is left
