"""What a caller is told when something is wrong, and what not."""

from typing import Annotated

import pytest
from asking import Asking
from fastapi import Body, FastAPI, HTTPException, Query
from pydantic import BaseModel, Field
from structlog.testing import capture_logs

from headrace.doors.problems import Problem, install_problems, problem_responses, too_many
from headrace.errors import (
    ConfigError,
    HandlerError,
    OutcomeUnknown,
    StoreUnavailable,
    StoreUnusable,
    Temporary,
    UnknownName,
)

URN = "urn:headrace:problem:"


class Weight(BaseModel):
    weight: float = Field(gt=0)
    tags: dict[str, int] = {}


@pytest.fixture
def client():
    app = FastAPI()
    install_problems(app)
    raised = {}

    @app.get("/raise", responses=problem_responses(404, 503))
    def fail() -> None:
        raise raised["error"]

    @app.put("/body")
    def put(body: Weight) -> float:
        return body.weight

    @app.post("/deep")
    def deep(body: Annotated[dict, Body()]) -> int:
        return len(body)

    @app.get("/query")
    def query(limit: Annotated[int, Query(ge=1)] = 1) -> int:
        return limit

    client = Asking(app)
    client.raised = raised
    return client


def told(client, error):
    client.raised["error"] = error
    answer = client.get("/raise")
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["title"]
    return answer, body


def test_a_problem_is_told_as_it_was_raised(client):
    error = Problem(
        409, "taken", "choose another", headers={"X-A": "b"}, extra={"by": 1, "type": 2}
    )
    answer, body = told(client, error)
    assert body == {
        "type": f"{URN}taken",
        "title": "Taken",
        "status": 409,
        "detail": "choose another",
        "by": 1,
    }
    assert answer.headers["X-A"] == "b"


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (UnknownName("no tenant x"), 404, "unknown-name"),
        (ConfigError("x is there already"), 409, "conflict"),
        (HTTPException(418, "tea"), 418, "refused"),
        (HTTPException(403, "no"), 403, "forbidden"),
    ],
)
def test_what_a_caller_did_wrong_is_told(client, error, status, kind):
    answer, body = told(client, error)
    assert (answer.status_code, body["type"]) == (status, URN + kind)
    assert body["detail"] == getattr(error, "detail", str(error))


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (StoreUnavailable("store postgresql://db/x: gone"), "1"),
        (StoreUnusable("store postgresql://db/x: it has no tables"), "1"),
        (OutcomeUnknown("store postgresql://db/x: lost"), "1"),
        (Temporary("x", retry_after_s=2.2), "3"),
        (Temporary("x", retry_after_s=0.001), "1"),
    ],
)
def test_what_passes_says_when_to_come_again_and_not_what_is_inside(client, error, wait):
    with capture_logs() as logs:
        answer, body = told(client, error)
    assert (answer.status_code, body["type"]) == (503, f"{URN}unavailable")
    assert answer.headers["Retry-After"] == wait
    assert "postgresql" not in answer.text
    assert logs[0]["incident"] in body["detail"]
    assert logs[0]["exc_info"] is error


@pytest.mark.parametrize("error", [HandlerError("secret"), ValueError("secret")])
def test_what_is_wrong_here_is_in_the_log_alone(client, error):
    with capture_logs() as logs:
        answer, body = told(client, error)
    assert (answer.status_code, body["type"]) == (500, f"{URN}internal")
    assert "secret" not in answer.text
    assert logs[0]["incident"] in body["detail"]


def test_what_does_not_fit_is_named_without_repeating_it(client):
    answer = client.put("/body", json={"weight": -7654, "tags": {"a/b~": "secret"}})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/weight", "/tags/a~1b~0"]
    assert "/weight: Input should be greater than 0" in answer.json()["detail"]
    assert "7654" not in answer.text
    assert "secret" not in answer.text
    answer = client.get("/query?limit=0")
    assert [error["parameter"] for error in answer.json()["errors"]] == ["limit"]


def test_of_many_faults_the_first_are_told(client):
    answer = client.put("/body", json={"weight": 1, "tags": {str(at): "x" for at in range(1000)}})
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 20


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"a":' * 100_000, "\x00", "NaN"])
def test_what_is_no_json_or_too_deep_is_refused(client, text):
    answer = client.post("/deep", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_what_is_not_there_and_wrong_methods_are_problems_too(client):
    assert client.get("/nope").json()["type"] == f"{URN}not-found"
    answer = client.delete("/query")
    assert (answer.json()["type"], answer.headers["allow"]) == (f"{URN}method-not-allowed", "GET")


def test_a_wait_is_a_whole_second_at_least():
    assert too_many("slow down", 0.2).headers == {"Retry-After": "1"}
    assert too_many("slow down", 1.5).headers == {"Retry-After": "2"}


def test_problems_are_declared(client):
    responses = client.get("/openapi.json").json()["paths"]["/raise"]["get"]["responses"]
    assert set(responses) == {"200", "404", "503"}
    assert list(responses["404"]["content"]) == ["application/problem+json"]
