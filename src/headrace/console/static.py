"""The pages: files that are read once and served from memory.

What is not among them cannot be asked for, however it is written, since no path of the file system
is ever made of a request.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request, Response

from headrace.console.access import GuardedRoute
from headrace.console.problems import not_there

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_INDEX = "index.html"
#: what Python does not know everywhere
_TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".woff2": "font/woff2"}


@dataclass(frozen=True, slots=True)
class File:
    """A file of the pages."""

    content: bytes
    media_type: str
    etag: str


def read_pages(folder: Traversable | None = None) -> dict[str, File]:
    """All files below a folder, by path; none: those of Headrace."""
    root = files("headrace.console") / "pages" if folder is None else folder
    return {} if not root.is_dir() else dict(_walk(root, ""))


def _walk(folder: Traversable, prefix: str) -> Mapping[str, File]:
    found: dict[str, File] = {}
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            found.update(_walk(entry, f"{path}/"))
        elif not entry.name.endswith((".py", ".pyc")):
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path] = File(content, _type_of(entry.name), etag)
    return found


def _type_of(name: str) -> str:
    for ending, media_type in _TYPES.items():
        if name.endswith(ending):
            return media_type
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


@router.get("/")
async def index(request: Request) -> Response:
    """The console itself."""
    return _served(request, _INDEX)


@router.get("/pages/{path:path}")
async def page_file(request: Request, path: str) -> Response:
    """A part of it."""
    return _served(request, path)


def _served(request: Request, path: str) -> Response:
    found: File | None = request.app.state.pages.get(path)
    if found is None:
        raise not_there("page", path)
    headers = {"ETag": found.etag, "Cache-Control": "no-cache"}
    if found.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)
