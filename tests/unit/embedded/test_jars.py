"""Sets of jars: locked, checked, kept."""

import hashlib

import pytest

from headrace.embedded import jars as module
from headrace.embedded.ivy import Coordinates
from headrace.embedded.jars import ROOTS, LockedJar, check, jars, lock_path, read_lock
from headrace.errors import ServerError

GOOD = LockedJar(Coordinates("org.x", "a", "1"), hashlib.sha256(b"good").hexdigest())


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A set of one jar, and what the mirror delivers for it."""
    lock = tmp_path / "kafka.lock"
    lock.write_text(f"# a comment\n{GOOD.coordinates} {GOOD.sha256}\n")
    monkeypatch.setattr(module, "lock_path", lambda _: lock)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    delivered = {"content": b"good", "times": 0}

    def retrieve(wanted, target, on_jar):
        delivered["times"] += 1
        for jar in wanted:
            on_jar(str(jar))
            (target / jar.file_name).write_bytes(delivered["content"])

    monkeypatch.setattr(module, "retrieve", retrieve)
    return delivered


def installed(tmp_path):
    return list((tmp_path / "cache").rglob("*.jar"))


def test_jars_are_fetched_once(mirror, tmp_path):
    assert jars("kafka") == jars("kafka") == installed(tmp_path)
    assert mirror["times"] == 1


def test_a_jar_with_a_bad_checksum_is_refused_and_nothing_is_installed(mirror, tmp_path):
    mirror["content"] = b"evil"
    with pytest.raises(ServerError, match=r"org\.x:a:1 is not what the lock says"):
        jars("kafka")
    assert installed(tmp_path) == []


def test_after_a_bad_delivery_a_good_one_is_installed(mirror, tmp_path):
    mirror["content"] = b"evil"
    with pytest.raises(ServerError):
        jars("kafka")
    mirror["content"] = b"good"
    assert jars("kafka") == installed(tmp_path)


def test_a_jar_that_was_not_delivered_is_named(tmp_path):
    with pytest.raises(ServerError, match=r"org\.x:a:1 was not delivered"):
        check([GOOD], tmp_path)


@pytest.mark.parametrize("line", ["a:b:1", "a:b 00", f"a:b:1 {'0' * 64} more", f"a:b {'0' * 64}"])
def test_a_lock_line_that_cannot_be_read_is_named(tmp_path, line):
    lock = tmp_path / "some.lock"
    lock.write_text(f"# head\n{line}\n")
    with pytest.raises(ServerError, match=r"some\.lock:2"):
        read_lock(lock)


def test_a_set_that_is_not_there_is_refused_with_those_that_are():
    with pytest.raises(ServerError, match=f"no jar set postgres; there is {', '.join(ROOTS)}$"):
        jars("postgres")


@pytest.mark.parametrize("name", ROOTS)
def test_every_set_has_a_lock_with_its_roots(name):
    locked = {jar.coordinates for jar in read_lock(lock_path(name))}
    assert locked >= set(ROOTS[name].jars)
    assert ROOTS[name].transitive or len(locked) == len(ROOTS[name].jars)
