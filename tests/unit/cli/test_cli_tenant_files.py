"""Many tenants at once: all of them or none, and every wrong line by its name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli import asking
from headrace.cli.tenant_file import read
from headrace.errors import ConfigError
from headrace.model.streams import State, Stopper, Tenant, Throttle
from headrace.testing.log_fake import MemoryLog

CSV = """name,weight,records_per_s,bytes_per_s,burst_s,state
corp,2,500,64k,5s,active

dune,,,,,suspended
"eel",0.5,,,,
"""
ARRAY = """[
  {"name": "corp", "weight": 2,
   "throttle": {"records_per_s": 500, "bytes_per_s": 65536, "burst_s": 5}},
  {"name": "dune", "state": "suspended"},
  {"name": "eel", "weight": 0.5, "throttle": null}
]
"""
LINES = """{"name": "corp", "weight": 2, "throttle":\
 {"records_per_s": 500, "bytes_per_s": "64k", "burst_s": "5s"}}
{"name": "dune", "state": "suspended", "stopped_by": ["operator"], "generation": 3}

{"name": "eel", "weight": 0.5}
"""
MADE = [
    Tenant("corp", weight=2.0, throttle=Throttle(500.0, 65536.0, 5.0)),
    Tenant("dune", State.SUSPENDED, stopped_by=frozenset({Stopper.OPERATOR})),
    Tenant("eel", weight=0.5),
]


@pytest.fixture
def add(headrace, tmp_path):
    """Add a text, as a file or from stdin."""

    def run(text, *words, by="tenants.txt", **more):
        if by == "-":
            return headrace("tenants", "add", "--file", "-", *words, input=text, **more)
        path = tmp_path / by
        path.write_text(text)
        return headrace("tenants", "add", "--file", str(path), *words, **more)

    return run


def names(store):
    return [tenant.name for tenant in store.registry.tenants()]


@pytest.mark.parametrize("by", ["tenants.csv", "-"])
@pytest.mark.parametrize("text", [CSV, ARRAY, LINES], ids=["csv", "array", "lines"])
def test_tenants_are_added_as_a_file_says_with_their_streams(add, store, text, by):
    result = add(text, by=by)
    assert result.exit_code == 0, result.output
    assert "3 tenants added" in result.output
    assert store.registry.tenants()[2:] == MADE
    assert [stream.topic for stream in store.registry.streams()][2:] == [
        "corp.visits",
        "dune.visits",
        "eel.visits",
    ]


def test_a_program_is_told_who_was_added(add):
    assert json.loads(add(CSV, "--json").output) == {
        "added": ["corp", "dune", "eel"],
        "again": [],
        "there": [],
        "differs": {},
        "dry_run": False,
    }


def test_a_dry_run_adds_nothing_and_finds_what_is_wrong(add, store):
    result = add(CSV, "--dry-run")
    assert "3 tenants would be added" in result.output
    assert names(store) == ["acme", "bolt"]
    assert add("name\nacme\n", "--dry-run").exit_code == 2


WRONG = """name,weight,burst_s,state
good,1,,
Acme,1,,
bolt,1,,
heavy,heavy,,
light,0,,
good,2,,
gone,1,,removed
short,1
bursts,1,3s,
,1,,
"""


def test_every_wrong_line_is_named_with_what_is_wrong_and_nothing_is_added(add, store):
    result = add(WRONG, by="tenants.csv")
    assert result.exit_code == 2
    assert "nothing is done" in result.output
    told = [line for line in result.output.splitlines() if "tenants.csv, line " in line]
    found = {int(line.split(", line ")[1].split(":")[0]): line for line in told}
    for line, words in {
        3: "tenant 'Acme': a name is 1 to 63 lower-case letters",
        4: "tenant bolt is there already, active; leave it out, or say --exists skip",
        5: "weight 'heavy' is no number",
        6: "weight 0.0 is not a number above 0",
        7: "tenant good is in the list twice; leave one out",
        8: "state 'removed' is neither active nor suspended",
        9: "it has 2 cells, the first line has 4",
        10: "give records_per_s or bytes_per_s too",
        11: "it has no name",
    }.items():
        assert words in found.pop(line)
    assert not found
    assert names(store) == ["acme", "bolt"]


def test_lines_of_json_are_named_too(add, store):
    wrong = '7, {"nam": "x"},\n{"name": "e", "weight": true}'
    result = add('[\n{"name": "corp"},\n{"name":\n "Dune"},\n' + wrong + "\n]")
    for place, words in (
        ("line 3, entry 2", "a name is"),
        ("line 5, entry 3", "a tenant is an object"),
        ("line 5, entry 4", "nam: a tenant has name, state"),
        ("line 6, entry 5", "tenant e: weight True is no number"),
    ):
        (line,) = [line for line in result.output.splitlines() if f"{place}: " in line]
        assert words in line
    assert names(store) == ["acme", "bolt"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[{"name": "a"}', "line 1: this is no JSON"),
        ('{"name": "a"}\n{"name": \n', "this is no JSON"),
        ('[{"name": "a"}] x', "line 1: there is more behind the end of the list"),
        ('name\n"a', "this is no CSV"),
        ("nom,weight\na,1\n", "it has no column name"),
        ("name,wieght\na,1\n", "wieght is none of them"),
        ("name,name\na,b\n", "it has one twice"),
        ("", "line 1: the first line names the columns"),
        ("[" * 100_000, "is no JSON"),
        ('[{"name": "a", "weight": ' + "9" * 5000 + "}]", "a number is too long"),
        ('[{"name": "a", "weight": ' + "9" * 400 + "}]", "weight is too large a number"),
        ("name,bytes_per_s\na," + "9" * 400 + "k", "bytes_per_s is too large a number"),
        ('[{"name": "a", "state": {"b": 1}}]', "is neither active nor suspended"),
    ],
)
def test_a_file_that_is_none_is_told_where(add, store, text, told):
    result = add(text)
    assert result.exit_code == 2
    assert told in result.output
    assert names(store) == ["acme", "bolt"]


def test_those_that_are_there_can_be_left_alone(add, store):
    text = "name,weight\nacme,9\ncorp,2\n"
    result = add(text, "--exists", "skip")
    assert result.exit_code == 0, result.output
    assert "1 tenant added" in result.output
    assert "1 there already: left as they are" in result.output
    assert store.registry.tenants()[0].weight == 1.0
    again = add(text, "--exists", "skip", "--json")
    found = json.loads(again.output)
    assert found["there"] == ["acme", "corp"]
    assert found["differs"] == {"acme": "weight 1 (listed: weight 9)"}


def test_what_of_those_that_are_there_stays_otherwise_is_told_by_name(add, headrace, store):
    headrace("tenants", "throttle", "acme", "--records", "50")
    headrace("tenants", "suspend", "bolt")
    told = add(
        "name,weight,records_per_s\nacme,2,50\nbolt,,7\ncorp,2,\n", "--exists", "skip"
    ).output
    stays = "is there, and stays otherwise than it is listed: "
    assert [line.split(stays) for line in told.splitlines() if stays in line] == [
        ["tenant acme ", "weight 1 (listed: weight 2)"],
        [
            "tenant bolt ",
            "records_per_s none (listed: records_per_s 7)",
        ],
    ]
    same = add("name,records_per_s\nacme,50\n", "--exists", "skip").output
    assert "otherwise" not in same


def test_what_is_not_listed_is_not_said_to_be_listed(add, headrace, store):
    headrace("tenants", "throttle", "acme", "--records", "50", "--burst", "7s")
    headrace("tenants", "weigh", "acme", "2")
    headrace("tenants", "suspend", "acme")

    def differs(*words, by=add):
        told = json.loads(by(*words, "--exists", "skip", "--json").output)
        return told["differs"].get("acme", "")

    assert differs("name\nacme\n") == differs("name,weight,state\nacme,,\n") == ""
    assert differs('{"name": "acme", "weight": null, "throttle": null}') == ""
    assert differs('{"name": "acme", "throttle": {"bytes_per_s": 5}}') == (
        "bytes_per_s none (listed: bytes_per_s 5)"
    )
    assert differs('{"name": "acme", "throttle": {"records_per_s": null, "burst_s": null}}') == (
        "records_per_s 50 (listed: records_per_s none)"
    )
    assert differs("tenants", "add", "acme", by=headrace) == ""
    assert differs("tenants", "add", "acme", "--weight", "1", by=headrace) == (
        "weight 2 (listed: weight 1)"
    )


def test_what_makes_topics_that_are_missing_is_told_with_what_was_added(headrace, config):
    tail = f"--config {config}'"
    one = headrace("tenants", "add", "corp")
    make = "a topic that is missing is made by 'headrace topics create --inputs"
    assert (one.stdout, one.stderr) == ("tenant corp added\n", f"{make} --tenant corp {tail}\n")
    assert headrace("tenants", "add", "dune", "eel").stderr == f"{make} {tail}\n"
    assert headrace("tenants", "add", "fox", "--dry-run").stderr == ""
    assert headrace("tenants", "add", "fox", "--json").stderr == ""


def test_those_that_were_removed_are_asked_about(add, store, monkeypatch, headrace):
    monkeypatch.setattr(asking, "log_of", lambda config: MemoryLog())
    headrace("tenants", "remove", "acme", "--yes")
    text = "name\nacme\ncorp\n"
    store.registry.tenants()
    result = add(text, "--yes")
    assert result.exit_code == 0, result.output
    assert "2 tenants added" in result.output
    assert "1 of them had been removed before" in result.output
    assert store.registry.tenants()[0].generation > 0


def test_what_a_list_prints_can_be_read_again(add, headrace, store):
    add(CSV)
    printed = headrace("tenants", "list", "--json").output
    result = add(printed, "--exists", "skip", "--json")
    assert json.loads(result.output)["there"] == ["acme", "bolt", "corp", "dune", "eel"]
    assert read("x", printed).tenants[2].throttle == MADE[0].throttle


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "name the tenant to add, such as acme, or a list of them with --file"),
        (("x", "--file", "-"), "the file says the name of each tenant"),
        (("--weight", "2", "--file", "-"), "the file says weight and limits of each"),
        (("--file", "nowhere.csv"), "name a file in UTF-8, or - for stdin"),
    ],
)
def test_what_says_twice_or_not_at_all_whom_to_add_is_refused(headrace, store, words, told):
    result = headrace("tenants", "add", *words)
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
    assert names(store) == ["acme", "bolt"]


def test_several_are_added_by_name_all_of_them_or_none(headrace, store):
    dry = headrace("tenants", "add", "corp", "dune", "--dry-run")
    assert (dry.exit_code, dry.output) == (0, "2 tenants would be added\n")
    assert names(store) == ["acme", "bolt"]
    assert headrace("tenants", "add", "corp", "dune", "--weight", "2").stdout == "2 tenants added\n"
    assert [(one.name, one.weight) for one in store.registry.tenants()[2:]] == [
        ("corp", 2.0),
        ("dune", 2.0),
    ]
    wrong = headrace("tenants", "add", "eel", "corp", "Eel", "eel")
    assert wrong.exit_code == 2
    told = " ".join(wrong.output.split())
    for words in (
        "nothing is done:",
        "tenant corp is there already",
        "'Eel'",
        "eel is in the list",
    ):
        assert words in told
    assert names(store) == ["acme", "bolt", "corp", "dune"]
    skipped = headrace("tenants", "add", "corp", "eel", "--exists", "skip", "--json")
    assert json.loads(skipped.output) == {
        "added": ["eel"],
        "again": [],
        "there": ["corp"],
        "differs": {},
        "dry_run": False,
    }


def test_of_names_that_were_removed_it_is_asked_once(headrace, store, monkeypatch):
    monkeypatch.setattr(asking, "log_of", lambda config: MemoryLog())
    assert headrace("tenants", "remove", "acme", "bolt", "--yes").exit_code == 0
    added = headrace("tenants", "add", "acme", "bolt", "corp", "--yes")
    assert "3 tenants added" in added.output
    assert "2 of them had been removed before" in added.output


def test_ten_thousand_are_read_in_moments_and_added_in_one_change(add, store):
    text = "name,weight\n" + "".join(f"t{number},{number % 9 + 1}\n" for number in range(10_000))
    before = store.revision()
    assert "10000 tenants added" in add(text).output
    assert store.revision() == before + 1
    assert len(store.registry.streams()) == 10_002


@given(st.text(max_size=80) | st.text('[]{}",:\n nameweight01', max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        found = read("x", text)
    except ConfigError as error:
        assert str(error).startswith("x, line ")  # noqa: PT017 - either may be
    else:
        assert len(found.tenants) == len(found.places)
