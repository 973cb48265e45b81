"""The pages as files: nothing from elsewhere, nothing inline, and others' files as they were."""

import hashlib
import re
from pathlib import Path

import pytest

import headrace.console

PAGES = Path(headrace.console.__file__).parent / "pages"
VENDOR = PAGES / "vendor"
OURS = sorted(path for path in PAGES.iterdir() if path.suffix in {".js", ".css", ".html", ".svg"})
SUMS = dict(
    reversed(line.split(maxsplit=1)) for line in (VENDOR / "SHA256SUMS").read_text().splitlines()
)


@pytest.mark.parametrize("name", sorted(SUMS))
def test_a_file_of_others_is_what_it_was(name):
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == SUMS[name]


def test_every_file_of_others_has_a_checksum_and_a_licence():
    code = {path.name for path in VENDOR.iterdir() if path.suffix in {".js", ".css", ".woff2"}}
    assert code == set(SUMS)
    assert {path.name for path in VENDOR.glob("LICENSE-*")} == {
        f"LICENSE-{name}" for name in ("preact", "htm", "uplot", "inter")
    }


@pytest.mark.parametrize("page", OURS, ids=lambda path: path.name)
def test_a_page_takes_nothing_from_elsewhere(page):
    text = page.read_text().replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://[a-z0-9]", text)


@pytest.mark.parametrize("page", OURS, ids=lambda path: path.name)
def test_what_a_page_names_is_there(page):
    text = page.read_text()
    named = [PAGES / name for name in re.findall(r"""["'(]/pages/([\w./-]+\.\w+)""", text)]
    named += [PAGES / name for name in re.findall(r"""(?:from|import\() ?["']\./([^"']+)""", text)]
    assert [path.name for path in named if not path.exists()] == []


def test_nothing_is_inline():
    text = (PAGES / "index.html").read_text()
    assert not re.search(r"<style|style=|<script(?![^>]*\bsrc=)|\son\w+=", text)
    assert not any(".innerHTML" in path.read_text() for path in OURS)


@pytest.mark.parametrize("page", OURS, ids=lambda path: path.name)
def test_a_page_can_be_read_in_one_sitting(page):
    assert len(page.read_text().splitlines()) <= 400
    if page.suffix in {".js", ".css"}:
        assert page.read_text().startswith("/* ")
