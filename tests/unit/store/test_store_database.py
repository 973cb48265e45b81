"""What a database is set to, and what its troubles are called."""

import stat

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from headrace.errors import ConfigError, StoreUnavailable
from headrace.store import open_store
from headrace.store.database import open_database


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


@pytest.fixture
def database(path):
    open_store(f"sqlite:///{path}").close()
    database = open_database(f"sqlite:///{path}", lock_wait_s=0.01)
    yield database
    database.close()


def test_a_missing_folder_is_made_and_the_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "not" / "there" / "store.db"
    open_store(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_sqlite_is_set_to_survive_a_power_cut(database):
    with database.read() as connection:
        settings = {
            name: connection.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_a_writer_that_waits_too_long_is_told_that_the_store_is_busy(database):
    with (
        database.write(),
        pytest.raises(StoreUnavailable, match="lock"),
        database.write(),
    ):
        pass


def test_readers_do_not_wait_for_a_writer(database):
    with database.write() as writer:
        writer.execute(text("UPDATE headrace_revision SET revision = 99"))
        with database.read() as reader:
            assert reader.scalar(text("SELECT revision FROM headrace_revision")) == 0


def test_a_full_disk_is_told_and_passes(database):
    def fill():
        with database.write() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")
            wave = "x" * 100_000
            insert = "INSERT INTO headrace_intents (wave_id, wave) VALUES ('w', ?)"
            connection.exec_driver_sql(insert, (wave,))

    with pytest.raises(StoreUnavailable, match="disk is full"):
        fill()
    with database.read() as connection:
        assert connection.scalar(text("SELECT count(*) FROM headrace_intents")) == 0


def test_a_read_only_file_is_told(path, database):
    read_only = open_database(f"sqlite:///file:{path}?mode=ro&uri=true")
    with (
        pytest.raises(ConfigError, match="make both writable"),
        read_only.write() as connection,
    ):
        connection.execute(text("UPDATE headrace_revision SET revision = 99"))
    read_only.close()


@pytest.mark.parametrize("place", ["file/below/store.db", "folder"])
def test_a_place_that_takes_no_file_is_told(tmp_path, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match=r"cannot be made .* name a place"):
        open_database(f"sqlite:///{tmp_path}/{place}")


def test_a_file_that_is_no_database_is_told_and_left_alone(path):
    path.write_text("dear diary, " * 100)
    with pytest.raises(ConfigError, match="no SQLite database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text() == "dear diary, " * 100


def test_a_guests_own_errors_pass_as_they_are(database):
    with (
        pytest.raises(IntegrityError),
        database.guest() as connection,
    ):
        connection.execute(text("INSERT INTO headrace_revision VALUES (1, 1)"))
    with database.guest() as connection:
        connection.execute(text("UPDATE headrace_revision SET revision = 5"))
    with database.read() as connection:
        assert connection.scalar(text("SELECT revision FROM headrace_revision")) == 5


def test_a_guest_that_cannot_begin_is_told_that_the_store_is_busy(database):
    with (
        database.write(),
        pytest.raises(StoreUnavailable, match="lock"),
        database.guest(),
    ):
        pass


def test_a_server_that_is_not_there_is_temporary_and_keeps_the_password_secret():
    database = open_database("postgresql://me:s3cret@127.0.0.1:1/headrace")
    with pytest.raises(StoreUnavailable) as told, database.read():
        pass
    assert "127.0.0.1:1/headrace" in str(told.value)
    assert "s3cret" not in str(told.value) + str(told.value.__cause__) + repr(database)
    database.close()
