"""The routes that the console asks, answered from a `World`; for pages, never for rules.

Everybody who hands in a key is let in with the role that the key names. What the real API refuses
is not refused here.
"""

import asyncio
import json
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from console_slots import use_cases
from console_world import World
from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles

import headrace.console

PAGES = Path(headrace.console.__file__).parent / "pages"
CSP = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
ROLES = ("operator", "viewer", "tenant", "sender")


def refused(status, detail, kind="refused"):
    body = {"type": f"urn:headrace:problem:{kind}", "title": kind, "detail": detail}
    return JSONResponse(body, status, media_type="application/problem+json")


def listed(items):
    return {"items": items, "next": None}


def fake(world: World, *, turn_s: float = 2.0, part: float = 0.35) -> FastAPI:
    """An app that moves the world on each ``turn_s`` while somebody looks; 0: it stands still."""
    app = FastAPI()

    @app.middleware("http")
    async def door(request: Request, call_next):
        path = request.url.path
        role = request.cookies.get("headrace_session")
        if path.startswith("/v1/") and path != "/v1/session" and role not in ROLES:
            return refused(401, "there is no session", "unauthorized")
        answer = await call_next(request)
        answer.headers["Content-Security-Policy"] = CSP
        if path.startswith("/v1/") and request.method != "GET" and path != "/v1/session":
            parts = path.split("/")
            tenant = parts[3] if parts[2] in {"tenants", "streams"} else None
            world.note(f"key:{role}", f"{request.method} {path}", tenant, answer.status_code)
        return answer

    @app.post("/v1/session")
    def session(asked: dict, response: Response):
        role = asked["key"].removeprefix("hr_")
        if role not in ROLES:
            return refused(401, "this key opens nothing", "unauthorized")
        if role == "sender":
            return refused(403, "a sender may not do this", "forbidden")
        response.set_cookie("headrace_session", role, httponly=True, samesite="strict")
        return me_of(role)

    @app.delete("/v1/session", status_code=204)
    def leave(response: Response):
        response.delete_cookie("headrace_session")

    @app.get("/v1/me")
    def me(request: Request):
        return me_of(request.cookies["headrace_session"])

    reading(app, world)
    changing(app, world)
    living(app, world, turn_s, part)

    @app.get("/")
    def index():
        return FileResponse(PAGES / "index.html")

    app.mount("/pages", StaticFiles(directory=PAGES))
    return app


def me_of(role):
    return {"name": f"key:{role}", "role": role, "tenant": "acme-00" if role == "tenant" else None}


def reading(app, world):
    @app.get("/v1/tenants/{tenant}")
    def one(tenant: str):
        found = world.tenants.get(tenant)
        return found or refused(404, f"there is no tenant {tenant}", "not-found")

    @app.get("/v1/tenants/{tenant}/history")
    def history(tenant: str, from_s: float, until_s: float):
        return listed(world.history(tenant, from_s, until_s))

    @app.get("/v1/streams")
    def streams(tenant: str):
        return listed(world.streams(tenant) if tenant in world.tenants else [])

    @app.get("/v1/streams/{tenant}/{use_case}")
    def stream(tenant: str, use_case: str):
        return world.stream(tenant, use_case)

    @app.get("/v1/failures")
    def failures(tenant: str, unread: bool = False):
        if unread:
            return listed(world.unread(tenant))
        every = world.failures.values()
        return listed([x for x in every if (x["tenant"], x["state"]) == (tenant, "open")])

    @app.get("/v1/failures/{number}")
    def failure(number: int):
        return world.failure(number)

    app.get("/v1/sparks")(world.sparks)
    app.get("/v1/use-cases")(lambda: listed(use_cases()))
    app.get("/v1/keys")(lambda: listed(world.keys))
    app.get("/v1/audit")(lambda: listed(world.audit))


def changing(app, world):
    @app.put("/v1/tenants/{tenant}")
    def limits(tenant: str, asked: dict):
        world.tenants[tenant] |= asked
        return world.tenants[tenant]

    @app.post("/v1/tenants/{tenant}/{what}")
    def tenant_state(tenant: str, what: str):
        return world.set_state(tenant, "suspended" if what == "suspend" else "active")

    @app.post("/v1/streams/{tenant}/{use_case}/redrive")
    def redrive(tenant: str, use_case: str, asked: dict):
        sent = min(12, asked.get("limit") or 12)
        read = [f"{tenant}.clicks", f"{tenant}.visits"]
        return {
            "sent": sent,
            "refused": ["offset 41 came back 3 times"],
            "left": 12 - sent,
            "topics": read,
            "dead_letters": [f"{topic}.dlq" for topic in read],
        }

    @app.put("/v1/streams/{tenant}/{use_case}/positions")
    def seek(tenant: str, use_case: str, asked: dict):
        return world.seek(tenant, use_case, **asked)

    @app.post("/v1/failures/{number}/{what}")
    def go_on(number: int, what: str):
        if world.failures[number]["state"] != "open":
            return refused(409, f"failure {number} is not open any more", "conflict")
        return world.close_failure(number, {"retry": "retried", "skip": "skipped"}[what])

    @app.post("/v1/keys", status_code=201)
    def create(asked: dict):
        return world.make_key(**asked)

    @app.post("/v1/keys/{prefix}/rotate")
    def rotate(prefix: str):
        old = next(key for key in world.keys if key["prefix"] == prefix)
        return world.make_key(old["role"], old["tenant"], old["label"])

    @app.delete("/v1/keys/{prefix}", status_code=204)
    def revoke(prefix: str):
        old = next(key for key in world.keys if key["prefix"] == prefix)
        old["revoked_at_s"] = old["created_at_s"]


def event(kind, body):
    return f"event: {kind}\ndata: {json.dumps(body)}\n\n"


def living(app, world, turn_s, part):
    @app.get("/v1/live")
    def live(request: Request):
        async def told():
            rows = list(world.tenants.values())
            whole = True
            while True:
                yield event("tenants", {"whole": whole, "items": rows, "gone": []})
                yield event("drivers", world.summary())
                yield event(
                    "waves", {"items": world.slots.waves if whole else world.slots.waves[:80]}
                )
                yield event("use-cases", {"items": use_cases()})
                yield event("alerts", listed(world.alerts()))
                whole = False
                await asyncio.sleep(turn_s or 3600)
                rows = world.turn(part)

        return StreamingResponse(told(), media_type="text/event-stream")


@contextmanager
def served(app, port=0):
    """The app on a port of its own; yields its address."""
    config = uvicorn.Config(app, port=port, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive(), "the fake ended"
        assert time.monotonic() < until, "the fake did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
