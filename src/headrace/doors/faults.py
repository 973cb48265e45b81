"""What is wrong with a request, by the place where it was sent.

A client corrects the field that a JSON pointer names, and shows the sentence beside it. What checks
requests names the variant of a union in its paths as well, which nobody sent, and repeats what was
sent in some of its sentences, which may be a secret. So a path is followed in the body itself, and
such sentences are made here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_MISSING = "Field required"


def fault_of(error: Mapping[str, Any], body: object) -> dict[str, str]:
    """One fault as callers are told it.

    Args:
        error: as Pydantic has it.
        body: what was sent; None: nothing, or nothing that could be read.
    """
    where, *path = error["loc"]
    kind, detail = error["type"], str(error["msg"]).removeprefix("Value error, ")
    told = error.get("ctx", {})
    if kind == "json_invalid":
        # Its path is a place in the text.
        return {"pointer": "", "detail": f"{detail}: {told.get('error', '')}"}
    if kind in {"union_tag_invalid", "union_tag_not_found"}:
        path = [*path, str(told["discriminator"]).strip("'")]
        tags = told.get("expected_tags")
        kind, detail = "missing", _MISSING if tags is None else f"Input should be one of {tags}"
    if where == "body":
        return {"pointer": _pointer(path, body, is_missing=kind == "missing"), "detail": detail}
    return {"parameter": ".".join(map(str, path)) or str(where), "detail": detail}


def place_of(fault: Mapping[str, str]) -> str:
    """Where it is, for a sentence."""
    return fault.get("parameter") or fault["pointer"] or "body"


def _pointer(path: Sequence[object], body: object, *, is_missing: bool) -> str:
    """The parts of a path that lead on in the body, and the last one where that is missing."""
    found: list[str] = []
    at: Any = body
    for row, part in enumerate(path, 1):
        if _leads_on(at, part):
            at = at[part]
        elif not (is_missing and row == len(path) and isinstance(at, Mapping)):
            continue
        found.append("/" + str(part).replace("~", "~0").replace("/", "~1"))
    return "".join(found)


def _leads_on(at: object, part: object) -> bool:
    if isinstance(at, list):
        return isinstance(part, int) and part < len(at)
    return isinstance(at, Mapping) and part in at
