"""Keys of an issuer that are read over the network: how long they are waited for, and by whom."""

import json
import threading
import time

import pytest
from structlog.testing import capture_logs

from dripping import dripping
from headrace.doors import signers
from headrace.doors.problems import Problem
from headrace.doors.signers import Signers

WAIT_S = 2.0
KEY = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
ALGORITHM = "EdDSA"
PUBLISHED = json.dumps({"keys": [{**KEY, "kid": "k1"}]}).encode()
HEAD = b"HTTP/1.1 200 OK\r\n"
FITS = HEAD + b"Content-Length: %d\r\n\r\n" % len(PUBLISHED) + PUBLISHED

drips_somewhere = pytest.mark.parametrize(
    "drips",
    [HEAD + b"X: " + b"a" * 9000, HEAD + b"Content-Length: 9000\r\n\r\n" + b" " * 9000],
    ids=["header", "body"],
)


@pytest.fixture(autouse=True)
def _shorter(monkeypatch):
    monkeypatch.setattr(signers, "_ANSWER_WAIT_S", WAIT_S)


def status_of(found, key_id="k1"):
    with pytest.raises(Problem) as caught:
        found.find(key_id, ALGORITHM)
    return caught.value.status_code, caught.value.headers["Retry-After"]


def test_keys_are_read_at_an_address():
    with dripping(b"", answers=[FITS]) as port:
        found = Signers(f"http://127.0.0.1:{port}/keys")
        assert found.find("k1", ALGORITHM)
        assert found.find("k2", ALGORITHM) is None


@drips_somewhere
def test_an_answer_that_comes_byte_by_byte_is_none_and_only_a_few_wait_for_it(drips):
    with dripping(drips) as port:
        found = Signers(f"http://127.0.0.1:{port}/keys")
        began_s, told = time.monotonic(), []
        strangers = [
            threading.Thread(target=lambda: told.append(status_of(found, "made-up")), daemon=True)
            for _ in range(60)
        ]
        for stranger in strangers:
            stranger.start()
        for stranger in strangers:
            stranger.join(60)
        assert len(told) == 60
        assert told[:39] == [(503, "1")] * 39, "more than a few do not wait"
        assert time.monotonic() - began_s < 10 * WAIT_S
        assert status_of(found) == (503, "30"), "it is not asked each time"


@drips_somewhere
def test_an_issuer_that_drips_keeps_no_thread_when_its_time_is_over(drips):
    with dripping(drips) as port:
        found = Signers(f"http://127.0.0.1:{port}/keys")
        assert status_of(found) == (503, "30")
        assert found._threads.close(WAIT_S), "the thread reads on"


def test_an_issuer_that_drips_is_asked_again_and_the_key_it_took_back_goes():
    now_s = [1000.0]
    with dripping(b" " * 9000, answers=[FITS]) as port:
        found = Signers(f"http://127.0.0.1:{port}/keys", lambda: now_s[0])
        assert found.find("k1", ALGORITHM)
    with dripping(HEAD + b"X: " + b"a" * 9000) as port:
        found._source = f"http://127.0.0.1:{port}/keys"
        now_s[0] += 300
        assert found.find("k1", ALGORITHM), "the last keys stay"
        with dripping(b"", answers=[FITS.replace(b"k1", b"k2")]) as other:
            found._source = f"http://127.0.0.1:{other}/keys"
            now_s[0] += 30
            assert found.find("k1", ALGORITHM) is None
            assert found.find("k2", ALGORITHM)


def test_who_has_a_key_that_is_just_asked_for_is_told_to_come_again():
    now_s = [1000.0]
    with dripping(b"", answers=[FITS]) as port:
        found = Signers(f"http://127.0.0.1:{port}/keys", lambda: now_s[0])
        assert found.find("k1", ALGORITHM)
    with dripping(HEAD + b"X: " + b"a" * 9000) as port:
        found._source = f"http://127.0.0.1:{port}/keys"
        now_s[0] += 30
        first = threading.Thread(target=status_of, args=(found, "k2"))
        first.start()
        while not found._asking.locked():
            time.sleep(0.01)
        assert status_of(found, "k2") == (503, "1")
        assert found.find("k1", ALGORITHM)
        first.join()


@pytest.mark.parametrize("to", ["http://127.0.0.2:1/keys", "ftp://127.0.0.1/keys", "file:///keys"])
def test_an_address_that_leads_to_where_anybody_could_answer_is_not_followed(to):
    moved = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % to.encode()
    with dripping(b"", answers=[moved]) as port, capture_logs() as logs:
        assert status_of(Signers(f"http://127.0.0.1:{port}/keys")) == (503, "30")
    assert "leads to" in logs[0]["error"] or "not allowed" in logs[0]["error"], logs


def test_an_address_may_lead_to_another_that_is_as_safe():
    with dripping(b"", answers=[FITS]) as port:
        to = b"http://127.0.0.1:%d/keys" % port
        moved = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % to
        with dripping(b"", answers=[moved]) as first:
            assert Signers(f"http://127.0.0.1:{first}/keys").find("k1", ALGORITHM)


def test_an_answer_without_end_is_none(monkeypatch):
    monkeypatch.setattr(signers, "_MOST_BYTES", len(PUBLISHED) - 1)
    with dripping(b"", answers=[FITS]) as port:
        assert status_of(Signers(f"http://127.0.0.1:{port}/keys")) == (503, "30")
