"""Security headers are on every answer, and only known names are answered."""

import pytest
from asking import Asking
from fastapi import FastAPI, Response

from headrace.doors.door import RequestLimits, install_door
from headrace.doors.open_guard import OpenGuard
from headrace.settings.doors import DoorsSettings


def client_of(host="127.0.0.1", base_url="http://localhost", **settings):
    app = FastAPI()
    guard = OpenGuard("127.0.0.1")
    install_door(app, guard, DoorsSettings(**settings), host, RequestLimits())

    @app.get("/")
    def root() -> Response:
        return Response("x", headers={"Cache-Control": "max-age=60"})

    return Asking(app, base_url=base_url)


def test_every_answer_has_them_refusals_too():
    client = client_of()
    for path in ("/", "/nope"):
        headers = client.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert "Strict-Transport-Security" not in headers
    refused = client.get("/", headers={"Host": "evil.example"})
    assert refused.status_code == 421
    assert "Content-Security-Policy" in refused.headers


def test_what_a_route_says_of_caching_counts_and_else_nothing_is_kept():
    client = client_of()
    assert client.get("/").headers["Cache-Control"] == "max-age=60"
    assert client.get("/nope").headers["Cache-Control"] == "no-store"


def test_over_tls_browsers_are_told_to_stay_there():
    client = client_of(base_url="https://localhost")
    assert "max-age" in client.get("/").headers["Strict-Transport-Security"]


@pytest.mark.parametrize(
    ("host", "hosts", "asked", "status"),
    [
        ("127.0.0.1", [], "localhost:8600", 200),
        ("127.0.0.1", [], "LOCALHOST", 200),
        ("127.0.0.1", [], "127.0.0.1:8600", 200),
        ("127.0.0.1", [], "[::1]:8600", 200),
        ("127.0.0.1", [], "rebound.example:8600", 421),
        ("127.0.0.1", [], "localhost.evil.example", 421),
        ("127.0.0.1", [], "", 421),
        ("0.0.0.0", [], "anything.example", 200),
        ("0.0.0.0", ["door.example"], "Door.example:443", 200),
        ("0.0.0.0", ["door.example"], "evil.example", 421),
        ("127.0.0.1", ["door.example"], "door.example", 200),
    ],
)
def test_names_that_are_answered_to(host, hosts, asked, status):
    client = client_of(host, hosts=hosts)
    assert client.get("/", headers={"Host": asked}).status_code == status
