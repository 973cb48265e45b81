"""Keys of an issuer that are read over HTTP."""

import json
import threading
import time

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs

from headrace.doors.problems import Problem
from headrace.doors.serving import Listening, serving
from headrace.doors.signers import Signers
from headrace.doors.tokens import TokenRules, Tokens
from headrace.model.credentials import Caller, Role
from own_tls import tls_files

KEY = ec.generate_private_key(ec.SECP256R1())
JWK = {**json.loads(jwt.algorithms.ECAlgorithm.to_jwk(KEY.public_key())), "kid": "k1"}


class Issuer:
    """An ASGI application that publishes keys, and counts who asks."""

    def __init__(self):
        self.asked, self.status = 0, 200
        self.headers = [(b"content-type", b"application/json")]
        self.body = json.dumps({"keys": [JWK]}).encode()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            self.asked += 1
            start = {"status": self.status, "headers": self.headers}
            await send({"type": "http.response.start", **start})
            await send({"type": "http.response.body", "body": self.body})


@pytest.fixture
def issuer():
    issuer = Issuer()
    with serving(issuer, Listening("127.0.0.1", 0)) as issuer.url:
        yield issuer


def token(kid="k1"):
    claims = {"iss": "i", "aud": "a", "sub": "ada", "role": "viewer", "exp": time.time() + 60}
    return jwt.encode(claims, KEY, "ES256", headers={"kid": kid})


def test_the_issuer_is_asked_once_for_many_tokens(issuer):
    tokens = Tokens(TokenRules("i", "a", issuer.url))
    assert tokens.caller(token()) == Caller("jwt:ada", Role.VIEWER)
    for at in range(50):
        with pytest.raises(Problem, match="no key of its id"):
            tokens.caller(token(f"made-up-{at}"))
    assert issuer.asked == 1


def test_an_issuer_is_asked_over_tls(tmp_path, monkeypatch):
    authority, trusted = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    tls = tls_files(authority, tmp_path, "127.0.0.1")
    with serving(Issuer(), Listening("127.0.0.1", 0, tls)) as url:
        assert Signers(url).find("k1", "ES256")


def test_many_that_come_at_once_at_the_start_all_wait_for_the_one_that_asks(issuer):
    signers, found = Signers(issuer.url), []
    asking = [
        threading.Thread(target=lambda: found.append(signers.find("k1", "ES256")))
        for _ in range(20)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert [key is not None for key in found] == [True] * 20
    assert issuer.asked == 1


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (500, [], b"{}"),
        (302, [(b"location", b"http://169.254.169.254/")], b""),
        (200, [], b"<html>"),
    ],
)
def test_an_answer_that_is_no_set_of_keys_opens_nothing(issuer, status, headers, body):
    issuer.status, issuer.headers, issuer.body = status, headers, body
    with capture_logs() as logs, pytest.raises(Problem) as caught:
        Signers(issuer.url).find("k1", "ES256")
    assert caught.value.status_code == 503
    assert logs[0]["log_level"] == "warning"
    assert issuer.asked == 1
