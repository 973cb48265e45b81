"""`headrace store`: what is done to the tables is shown, and the way down is asked about."""

import sqlite3
from contextlib import closing

import pytest

from headrace.store.database import open_database
from headrace.store.migrations import every_version, newest_version, version_of

EVERY = every_version()
NEWEST = newest_version()


@pytest.fixture
def version(store, tmp_path):
    """The version of the tables, told without touching them."""
    database = open_database(f"sqlite:///{tmp_path}/store.db")

    def tell():
        with database.read() as connection:
            return version_of(connection)

    yield tell
    database.close()


def test_the_version_is_shown_and_left(headrace, version):
    headrace("store", "downgrade", "--to", "1", "--yes")
    done = headrace("store", "version")
    assert done.output.split()[:4] == ["tables", "0001", "Headrace's", NEWEST]
    assert "headrace store upgrade" in done.output
    assert version() == "0001"


def test_of_tables_of_a_later_version_it_is_said_how_to_go_back(headrace, tmp_path):
    headrace("store", "upgrade")
    with closing(sqlite3.connect(tmp_path / "store.db")) as database:
        database.execute("UPDATE headrace_version SET version_num = '9999'")
        database.commit()
    done = headrace("store", "version")
    assert f"headrace store downgrade --to {int(NEWEST)}" in done.output
    assert "upgrade" not in done.output


def test_an_upgrade_shows_each_step(headrace, version):
    headrace("store", "downgrade", "--to", "1", "--yes")
    done = headrace("store", "upgrade")
    assert done.exit_code == 0
    for step in EVERY[1:]:
        assert f"{step.version}  {step.title}" in done.output
    assert version() == NEWEST


def test_an_upgrade_of_a_store_that_is_up_says_so(headrace):
    done = headrace("store", "upgrade")
    assert done.output == f"the tables are of version {NEWEST}\n"


def test_a_downgrade_shows_what_is_lost_and_asks(headrace, version):
    done = headrace("store", "downgrade", "--to", "1", input="n\n")
    assert done.exit_code == 1
    assert all(step.title in done.output for step in EVERY[1:])
    assert version() == NEWEST
    done = headrace("store", "downgrade", "--to", "1", input="y\n")
    assert done.exit_code == 0
    assert f"undone: {NEWEST}" in done.output
    assert version() == "0001"


def test_a_downgrade_to_nothing_drops_all_tables(headrace, version):
    done = headrace("store", "downgrade", "--to", "0", "--yes")
    assert "the tables are of version base" in done.output
    assert version() is None


def test_a_downgrade_to_where_it_is_does_nothing(headrace, version):
    done = headrace("store", "downgrade", "--to", str(int(NEWEST)))
    assert f"of version {NEWEST} already" in done.output
    assert version() == NEWEST


def test_a_version_that_is_not_there_is_refused(headrace, version):
    done = headrace("store", "downgrade", "--to", "99", "--yes")
    assert done.exit_code == 2
    assert "cannot go back to 0099" in done.output
    assert version() == NEWEST
