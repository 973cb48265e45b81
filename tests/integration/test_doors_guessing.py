"""Somebody who guesses keys at a real door, and what the time of an answer tells."""

import statistics
import time
from contextlib import closing
from typing import Annotated

import httpx
import pytest
from fastapi import Depends, FastAPI

from headrace.doors.attempts import FAILURES_PER_MINUTE, Attempts
from headrace.doors.door import Limits, install_door
from headrace.doors.guard import Guard, allowed
from headrace.doors.keys import new_key
from headrace.doors.problems import Problem
from headrace.doors.serving import Listening, serving
from headrace.model.credentials import Caller, Role
from headrace.settings_doors import DoorsSettings
from headrace.store import open_store

SECRET = b"a secret of thirty-two characters"
ROUNDS = 300


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
    install_door(app, Guard(store.keys, SECRET), DoorsSettings(), "127.0.0.1", Limits())

    @app.get("/who")
    def who(caller: Annotated[Caller, Depends(allowed(Role.OPERATOR))]) -> str:
        return caller.name

    with serving(app, Listening("127.0.0.1", 0)) as url:
        yield url


def client_at(address, url):
    return httpx.Client(transport=httpx.HTTPTransport(local_address=address), base_url=url)


def shown(text):
    return {"Authorization": f"Bearer {text}"}


def test_who_guesses_keys_has_to_wait_and_the_good_key_still_works_from_elsewhere(url, key):
    with client_at("127.0.0.2", url) as guessing, client_at("127.0.0.3", url) as honest:
        guesses = [f"hr_{at:08}_{'a' * 43}" for at in range(2 * FAILURES_PER_MINUTE)]
        answers = [guessing.get("/who", headers=shown(each)) for each in guesses]
        statuses = [each.status_code for each in answers]
        assert statuses == [401] * FAILURES_PER_MINUTE + [429] * FAILURES_PER_MINUTE
        assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
        assert answers[-1].json()["type"] == "urn:headrace:problem:rate-limited"
        assert honest.get("/who", headers=shown(key)).json() == f"key:{key[3:11]}"


def took_s(guard, text):
    begun_s = time.perf_counter()
    with pytest.raises(Problem):
        guard.caller(f"Bearer {text}")
    return time.perf_counter() - begun_s


def test_the_time_of_a_refusal_does_not_tell_whether_a_key_exists(store, key):
    guard = Guard(store.keys, SECRET, attempts=Attempts(10**6, 10**6))
    guard.caller(f"Bearer {key}")
    wrong = key[:-2] + ("AA" if key[-2:] != "AA" else "BB")
    unknown = "hr_unknown0_" + key[12:]
    times = [(took_s(guard, wrong), took_s(guard, unknown)) for _ in range(ROUNDS)]
    of_wrong, of_unknown = (statistics.quantiles(each, n=10) for each in zip(*times, strict=True))
    # The middle of each lies well within the other.
    assert of_unknown[0] < of_wrong[4] < of_unknown[8]
    assert of_wrong[0] < of_unknown[4] < of_wrong[8]
