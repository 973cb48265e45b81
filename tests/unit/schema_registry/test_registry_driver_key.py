"""The drivers of `up` have a key of their own: made once, kept in a file of its owner alone."""

import stat

import pytest

from headrace.doors.guard import Guard
from headrace.errors import ConfigError
from headrace.model.credentials import Caller, Role
from headrace.schema_registry.driver_key import keep_driver_key
from headrace.testing.memory_store import MemoryStore

SECRET = b"a secret of thirty-two characters"


@pytest.fixture
def keys():
    return MemoryStore().keys


@pytest.fixture
def file(tmp_path):
    return tmp_path / "up" / "registry-key"


def kept(keys, file, now_s=5.0, secret=SECRET):
    keep_driver_key(keys, secret, now_s, file)
    return file.read_text()


def test_it_is_made_once_registers_schemas_and_does_nothing_else(keys, file):
    text = kept(keys, file)
    assert kept(keys, file) == text
    (key,) = keys.every()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    user, password = text.strip().split(":")
    caller = Guard(keys, SECRET).caller(f"Bearer {password}")
    assert (user, caller) == ("drivers", Caller(f"key:{key.prefix}", Role.SCHEMAS))


def test_one_that_opens_nothing_any_more_is_replaced(keys, file):
    revoked = kept(keys, file)
    keys.revoke(keys.every()[0].prefix, 6.0)
    of_old_secret = kept(keys, file, 7.0)
    assert of_old_secret != revoked
    of_another_store = kept(keys, file, 8.0, SECRET[::-1])
    assert of_another_store != of_old_secret
    assert kept(MemoryStore().keys, file, 9.0, SECRET[::-1]) != of_another_store


@pytest.mark.parametrize(
    "text", ["", "drivers", "drivers:secret", "drivers:hr_nobody00_" + "a" * 43]
)
def test_a_file_without_a_key_is_as_if_there_were_none(keys, file, text):
    file.parent.mkdir()
    file.write_text(text)
    assert kept(keys, file).startswith("drivers:hr_")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_cannot_be_read_is_told_by_its_path(keys, file):
    file.mkdir(parents=True)
    with pytest.raises(ConfigError, match="registry-key cannot be read; remove it"):
        kept(keys, file)
