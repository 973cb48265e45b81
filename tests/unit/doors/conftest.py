"""A store with keys, and time that stands until a test moves it."""

import pytest

from headrace.doors.guard import Guard
from headrace.doors.keys import bound_to, new_key
from headrace.errors import StoreUnavailable
from headrace.model.credentials import Role
from headrace.model.streams import Tenant
from headrace.testing.memory_store import MemoryStore

SECRET = b"a secret of thirty-two characters"


class Clock:
    """Seconds since 1970, moved by hand, and seconds that go on when these are set back."""

    def __init__(self):
        self.now_s = 1_790_000_000.0
        self._set_back_s = 0.0

    def __call__(self):
        return self.now_s

    def steady(self):
        return self.now_s + self._set_back_s

    def set_back(self, seconds):
        self.now_s -= seconds
        self._set_back_s += seconds


class CountedKeys:
    """The keys of a store, which says what was looked up."""

    def __init__(self, keys):
        self._keys = keys
        self.looked_up = []
        self.down = False
        #: what is raised then
        self.trouble = StoreUnavailable
        #: called in the middle of a look, once
        self.meanwhile = None

    def find(self, prefix):
        self.looked_up.append(prefix)
        if self.down:
            raise self.trouble
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return self._keys.find(prefix)

    def added_again_s(self, tenant):
        if self.down:
            raise self.trouble
        return self._keys.added_again_s(tenant)

    def may_be_customer(self, name):
        return self._keys.may_be_customer(name)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store():
    store = MemoryStore()
    for name in ("acme", "bolt"):
        store.registry.add_tenant(Tenant(name))
    return store


@pytest.fixture
def give(store, clock):
    """Make and keep a key."""

    def give(role=Role.OPERATOR, tenant=None, lives_s=None, subjects=None):
        ends_at_s = None if lives_s is None else clock() + lives_s
        text, key = new_key(role, tenant, "test", SECRET, clock(), expires_at_s=ends_at_s)
        key = bound_to(key, subjects)
        store.keys.add(key)
        return text, key

    return give


@pytest.fixture
def keys(store):
    return CountedKeys(store.keys)


@pytest.fixture
def guard(keys, clock):
    return Guard(keys, SECRET, clock=clock, steady=clock.steady)
