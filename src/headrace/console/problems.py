"""The refusals that routes declare, for the OpenAPI document, and one that several share."""

from __future__ import annotations

from typing import Any

from headrace.doors.problems import Problem, problem_responses


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Those that any route behind a credential may answer with, and these."""
    return problem_responses(*sorted({400, 401, 403, 422, 429, 503, *statuses}))


def not_there(what: str, name: object) -> Problem:
    """404, for what nobody added."""
    return Problem(404, "unknown-name", f"there is no {what} {name}")


def no_tenant(name: str) -> Problem:
    """404, for whoever may ask for any; a tenant that asks for another is refused by `own`."""
    detail = f"there is no tenant {name}; an operator adds it: PUT /v1/tenants/{name}"
    return Problem(404, "unknown-name", detail)
