"""Keys: their form, who may have one, and rotation with overlap."""

import re

import pytest
from sqlalchemy import event

from headrace.doors.keys import digest_of, new_key, prefix_of, rotate
from headrace.errors import ConfigError, UnknownName
from headrace.model.credentials import Role
from headrace.model.streams import Tenant
from headrace.settings.doors import CertificateSettings
from headrace.store import open_store
from headrace.testing.memory_store import MemoryStore

SECRET = b"a secret of thirty-two characters"


def test_a_key_is_random_and_names_itself_by_its_prefix():
    made = [new_key(Role.OPERATOR, None, "", SECRET, 5.0) for _ in range(50)]
    assert len({text for text, _ in made}) == len({key.prefix for _, key in made}) == 50
    for text, key in made:
        assert re.fullmatch(r"hr_[0-9a-z]{8}_[0-9A-Za-z_-]{43}", text)
        assert prefix_of(text) == key.prefix


def test_what_is_kept_of_a_key_is_an_hmac_under_the_secret():
    text, key = new_key(Role.SENDER, "acme", "shop", SECRET, 5.0, expires_at_s=9.0)
    assert key.digest == digest_of(text, SECRET) != digest_of(text, SECRET + b"x")
    assert len(key.digest) == 32
    assert text[12:] not in repr(key)
    assert (key.role, key.tenant, key.label) == (Role.SENDER, "acme", "shop")
    assert (key.created_at_s, key.expires_at_s, key.revoked_at_s) == (5.0, 9.0, None)


@pytest.mark.parametrize(
    "text", ["", "hr_", "hr_a_b", "HR_" + "a" * 8 + "_" + "b" * 43, "x" * 10_000, "hr_abcdefgh_é"]
)
def test_what_is_no_key_has_no_prefix(text):
    assert prefix_of(text) is None


def test_nothing_around_a_key_is_taken_for_it():
    text, _ = new_key(Role.OPERATOR, None, "", SECRET, 5.0)
    assert [prefix_of(wrong) for wrong in (text + "\n", " " + text, text + "a")] == [None] * 3


def test_a_key_of_role_schemas_is_for_one_tenant_or_for_all():
    made = [new_key(Role.SCHEMAS, tenant, "", SECRET, 5.0)[1].tenant for tenant in ("acme", None)]
    assert made == ["acme", None]
    settings = [CertificateSettings(role=Role.SCHEMAS, tenant=tenant) for tenant in made]
    assert [setting.tenant for setting in settings] == made


@pytest.mark.parametrize(
    ("role", "tenant", "ends_at_s", "told"),
    [
        (Role.SENDER, None, None, "needs a tenant"),
        (Role.TENANT, None, None, "needs a tenant"),
        (Role.VIEWER, "acme", None, "for all tenants"),
        (Role.OPERATOR, "acme", None, "for all tenants"),
        (Role.VIEWER, None, 5.0, "expired already"),
        (Role.VIEWER, None, float("nan"), "expired already"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(role, tenant, ends_at_s, told):
    with pytest.raises(ConfigError, match=told):
        new_key(role, tenant, "", SECRET, 5.0, expires_at_s=ends_at_s)
    with pytest.raises(ConfigError, match="label"):
        new_key(Role.VIEWER, None, "x" * 101, SECRET, 5.0)


def test_a_rotated_key_and_its_successor_work_together_for_the_overlap():
    store = MemoryStore()
    store.registry.add_tenant(Tenant("acme"))
    _, old = new_key(Role.SENDER, "acme", "shop", SECRET, 100.0, expires_at_s=1000.0)
    store.keys.add(old)
    text, new = rotate(store.keys, old.prefix, SECRET, 500.0, overlap_s=60.0)
    assert store.keys.find(prefix_of(text)) == new
    assert (new.role, new.tenant, new.label) == (old.role, old.tenant, old.label)
    assert new.expires_at_s == 1400.0, "it lives as long as the old one was to"
    kept = store.keys.find(old.prefix)
    assert kept.works(559.0)
    assert not kept.works(560.0)


def test_a_key_that_is_rotated_without_an_overlap_is_revoked_whatever_the_clock_says():
    store = MemoryStore()
    _, old = new_key(Role.VIEWER, None, "", SECRET, 100.0)
    store.keys.add(old)
    rotate(store.keys, old.prefix, SECRET, 500.0, overlap_s=0.0)
    assert not store.keys.find(old.prefix).works(400.0)


def test_only_a_key_that_works_is_rotated():
    store = MemoryStore()
    with pytest.raises(UnknownName, match="no key nobody00"):
        rotate(store.keys, "nobody00", SECRET, 1.0, overlap_s=1.0)
    _, key = new_key(Role.VIEWER, None, "", SECRET, 1.0)
    store.keys.add(key)
    store.keys.revoke(key.prefix, 2.0)
    with pytest.raises(ConfigError, match="does not work any more"):
        rotate(store.keys, key.prefix, SECRET, 3.0, overlap_s=1.0)
    assert store.keys.every() == [store.keys.find(key.prefix)]


def test_a_key_that_is_revoked_at_this_moment_has_no_successor():
    store = MemoryStore()
    _, key = new_key(Role.VIEWER, None, "", SECRET, 1.0)
    store.keys.add(key)

    class Meanwhile:
        def find(self, prefix):
            found = store.keys.find(prefix)
            store.keys.revoke(prefix, 2.0)
            return found

        def __getattr__(self, name):
            return getattr(store.keys, name)

    with pytest.raises(ConfigError, match="does not work any more"):
        rotate(Meanwhile(), key.prefix, SECRET, 3.0, overlap_s=1.0)
    assert store.keys.every() == [store.keys.find(key.prefix)]


def test_a_rotation_is_written_at_once_or_not_at_all(tmp_path):
    """Or a cut would leave a key that works and was shown to nobody."""
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    _, key = new_key(Role.VIEWER, None, "", SECRET, 1.0)
    store.keys.add(key)
    writes = []

    @event.listens_for(store._database.engine, "commit")
    def commits(connection):
        if connection.get_execution_options().get("headrace_writes"):
            writes.append(connection)

    rotate(store.keys, key.prefix, SECRET, 3.0, overlap_s=60.0)
    assert len(writes) == 1
    rotate(store.keys, key.prefix, SECRET, 3.0, overlap_s=0.0)
    assert len(writes) == 2
    store.close()
