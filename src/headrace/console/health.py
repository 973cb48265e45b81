"""What machines ask: whether it lives, whether it can work, and what the API is like."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from headrace.console.access import GuardedRoute
from headrace.console.answers import answer
from headrace.console.metrics import CONTENT_TYPE, Metrics
from headrace.console.problems import refusals
from headrace.console.shapes import Health
from headrace.doors.problems import Problem, problem_responses
from headrace.doors.readiness import Readiness

router = APIRouter(route_class=GuardedRoute, tags=["health"])


@router.get("/livez", response_model=Health)
async def livez() -> Response:
    """Whether the process answers."""
    return answer({"status": "ok"})


@router.get("/readyz", response_model=Health, responses=problem_responses(503))
async def readyz(request: Request) -> Response:
    """Whether the store answers too, as of a second ago."""
    readiness = request.app.state.readiness
    assert isinstance(readiness, Readiness), "the app was made with one"
    if not await readiness.now():
        detail = "the store does not answer"
        raise Problem(503, "unavailable", detail, headers={"Retry-After": "1"})
    return answer({"status": "ok"})


@router.get(
    "/metrics",
    responses={
        200: {
            "description": "Prometheus text format; docs/metrics.md has every metric.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **refusals(),
    },
    response_class=Response,
)
def show_metrics(request: Request) -> Response:
    """What drivers tell, as Prometheus scrapes it; at most a second old."""
    metrics = request.app.state.metrics
    assert isinstance(metrics, Metrics), "the app was made with one"
    return Response(metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})


@router.get("/v1/openapi.json", include_in_schema=False)
async def openapi(request: Request) -> Response:
    """This API, as OpenAPI 3.1."""
    return answer(request.app.openapi())
