"""The documentation: its commands exist, its examples run, its links lead somewhere."""

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from headrace import SliceContext
from headrace.cli.app import app
from headrace.model.streams import LaneId, Slice
from headrace.settings import read_settings
from headrace.spark.handling import handle
from headrace.testing.records import records
from headrace.use_cases import UseCase

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(page.read_text()) if kind == language]


def commands() -> list[str]:
    found = set()
    for page in PAGES:
        for block in blocks(page, ""):
            for line in block.splitlines():
                command = re.split(r"\s{2,}|\s#", line.strip())[0]
                if command.startswith("headrace "):
                    found.add(command)
        found.update(re.findall(r"`(headrace [a-z][^`]*)`", page.read_text()))
    return sorted(found)


@pytest.mark.parametrize("command", commands())
def test_a_command_in_the_docs_can_be_typed(command):
    words = shlex.split(command)[1:]
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output


def test_the_docs_show_commands_at_all():
    assert len(commands()) > 15


def test_the_guides_use_case_does_what_it_says():
    names = {}
    exec(blocks(ROOT / "docs" / "guide.md", "python")[0], names)
    pages = names["pages"]
    assert isinstance(pages, UseCase)
    context = SliceContext(
        "pages", "acme", (Slice(LaneId("pages", "acme", 0), "acme.visits", 0, 2, 1),)
    )
    done = handle(pages, records([b'{"page": "/a"}', b"{"]), context)
    assert done.output.to_pydict() == {"tenant": ["acme"], "page": ["/a"], "visits": [1]}
    assert (done.error.code, done.error.offset) == ("BadRecord", 1)


def test_the_guides_dataframe_use_case_is_one():
    names = {}
    exec("from headrace import use_case\n" + blocks(ROOT / "docs" / "guide.md", "python")[1], names)
    assert names["report"].form == "wave"


def test_the_guides_yaml_file_is_accepted(tmp_path):
    path = tmp_path / "headrace.yaml"
    path.write_text(blocks(ROOT / "docs" / "guide.md", "yaml")[0])
    assert read_settings(path).module == "use_cases.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_in_the_docs_exist():
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"`?make ([a-z]+)", " ".join(blocks(page, ""))):
            assert target in made, f"{page.name}: make {target}"


def test_tables_of_records_have_the_columns_that_the_guide_names():
    told = re.search(
        r"columns of a record .*?:\s(.*?)\.", (ROOT / "docs/guide.md").read_text(), re.DOTALL
    )
    assert re.findall(r"`(\w+)`", told.group(1)) == records([]).column_names
    assert isinstance(records([]), pa.Table)
