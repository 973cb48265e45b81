"""Paths as they were asked for."""

from pathlib import Path

import pytest

from headrace.versions.paths import as_asked, folder_of_file, link_that_takes_along


@pytest.fixture
def released(tmp_path, monkeypatch):
    """Two releases, and links to them."""
    for name in ("release-1", "elsewhere/release-2"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "headrace.yaml").write_text("")
    (tmp_path / "current").symlink_to("release-1")
    (tmp_path / "headrace.yaml").symlink_to("current/headrace.yaml")
    (tmp_path / "linked.yaml").symlink_to("headrace.yaml")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PWD", raising=False)
    return tmp_path


def test_links_stay_in_what_was_asked_for(released):
    assert as_asked(released / "current/headrace.yaml") == released / "current/headrace.yaml"


def test_a_way_up_leads_from_where_a_link_leads_to(released):
    (released / "current").unlink()
    (released / "current").symlink_to("elsewhere/release-2")
    assert as_asked(released / "current/../x.py") == released / "elsewhere/x.py"


def test_the_folder_is_named_as_the_shell_names_it(released, monkeypatch):
    monkeypatch.chdir(released / "release-1")
    monkeypatch.setenv("PWD", str(released / "current"))
    assert as_asked(Path("headrace.yaml")) == released / "current/headrace.yaml"
    for other in (str(released), "current", "/none", ""):
        monkeypatch.setenv("PWD", other)
        assert as_asked(Path("headrace.yaml")) == released / "release-1/headrace.yaml"


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("release-1/headrace.yaml", "release-1"),
        ("current/headrace.yaml", "current"),
        ("headrace.yaml", "current"),
        ("linked.yaml", "release-1"),
        ("current/none.yaml", "current"),
    ],
)
def test_the_folder_of_a_file_is_that_of_what_it_links_to(released, file, folder):
    assert folder_of_file(released / file) == released / folder


@pytest.mark.parametrize(
    ("file", "folder", "link"),
    [
        ("current/headrace.yaml", "release-1/.headrace/versions", "current"),
        ("headrace.yaml", "release-1/.headrace/versions", "headrace.yaml"),
        ("current/headrace.yaml", ".headrace/versions", None),
        ("current/headrace.yaml", "current/../.headrace/versions", None),
        ("release-1/headrace.yaml", "release-1/.headrace/versions", None),
        ("linked.yaml", ".headrace/versions", None),
    ],
)
def test_a_link_takes_along_what_lies_where_it_leads(released, file, folder, link):
    found = link_that_takes_along(released / file, released / folder)
    assert found == (None if link is None else released / link)


def test_a_file_that_is_another_one_beside_it_takes_nothing_along(released):
    (released / "release-1/same.yaml").symlink_to("headrace.yaml")
    versions = released / "release-1/versions"
    assert link_that_takes_along(released / "release-1/same.yaml", versions) is None
