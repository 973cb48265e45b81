"""Somebody who guesses keys at a real door, and what a refusal tells."""

import hmac
import time
from contextlib import closing
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI

from headrace.doors.attempts import FAILURES_PER_MINUTE, Attempts
from headrace.doors.door import RequestLimits, install_door
from headrace.doors.guard import Guard, allowed
from headrace.doors.keys import new_key
from headrace.doors.problems import Problem
from headrace.doors.serving import Listening, serving
from headrace.model.credentials import Caller, Role
from headrace.settings.doors import DoorsSettings
from headrace.store import open_store

SECRET = b"a secret of thirty-two characters"


@pytest.fixture
def store(tmp_path):
    with closing(open_store(f"sqlite:///{tmp_path}/store.db")) as store:
        yield store


@pytest.fixture
def key(store):
    text, key = new_key(Role.OPERATOR, None, "", SECRET, time.time())
    store.keys.add(key)
    return text


@pytest.fixture
def url(store):
    app = FastAPI()
    install_door(app, Guard(store.keys, SECRET), DoorsSettings(), "127.0.0.1", RequestLimits())

    @app.get("/who")
    def who(caller: Annotated[Caller, Depends(allowed(Role.OPERATOR))]) -> str:
        return caller.name

    with serving(app, Listening("127.0.0.1", 0)) as url:
        yield url


def client_at(address, url):
    return httpx.Client(
        transport=httpx.HTTPTransport(local_address=address), base_url=url, timeout=60
    )


def shown(text):
    return {"Authorization": f"Bearer {text}"}


def test_who_guesses_keys_has_to_wait_and_the_good_key_still_works_from_elsewhere(url, key):
    with client_at("127.0.0.2", url) as guessing, client_at("127.0.0.3", url) as honest:
        guesses = [f"hr_{at:08}_{'a' * 43}" for at in range(2 * FAILURES_PER_MINUTE)]
        answers = [guessing.get("/who", headers=shown(guess)) for guess in guesses]
        statuses = [answer.status_code for answer in answers]
        assert statuses == [401] * FAILURES_PER_MINUTE + [429] * FAILURES_PER_MINUTE
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
        assert answers[-1].json()["type"] == "urn:headrace:problem:rate-limited"
        assert honest.get("/who", headers=shown(key)).json() == f"key:{key[3:11]}"


class CountingKeys:
    """Keys of a store, and what is asked of them."""

    def __init__(self, keys, work):
        self.keys, self.work = keys, work

    def find(self, prefix):
        self.work.append("looked up")
        return self.keys.find(prefix)

    def may_be_customer(self, name):
        raise AssertionError("no key is asked about by its tenant's name")


@pytest.mark.parametrize("was_used", [False, True])
def test_a_refusal_costs_the_same_whether_the_key_exists_or_not(store, key, monkeypatch, was_used):
    # Counted, not timed: a difference of a microsecond shows on a quiet machine only.
    work = []
    guard = Guard(CountingKeys(store.keys, work), SECRET, attempts=Attempts(10**6, 10**6))
    if was_used:
        guard.caller(f"Bearer {key}")
    compare = hmac.compare_digest

    def counted(one, other):
        work.append(("compared", len(one), len(other)))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    work_of = {}
    wrong = key[:-2] + ("AA" if key[-2:] != "AA" else "BB")
    for kind, text in (("wrong", wrong), ("unknown", "hr_unknown0_" + key[12:])):
        work.clear()
        with pytest.raises(Problem, match="not known"):
            guard.caller(f"Bearer {text}")
        work_of[kind] = list(work)
    assert work_of["wrong"] == work_of["unknown"]
    assert work_of["wrong"] == [("compared", 32, 32), "looked up", ("compared", 32, 32)]
