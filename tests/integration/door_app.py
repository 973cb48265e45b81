"""A server with a door, as a process of its own: prints its address, serves until SIGTERM."""

import asyncio
import sys
from typing import Annotated

from fastapi import Body, FastAPI
from fastapi.responses import StreamingResponse

from headrace.doors.door import RequestLimits, install_door
from headrace.doors.open_guard import OpenGuard
from headrace.doors.protocol import ClientTimeouts
from headrace.doors.serving import Listening, serve
from headrace.settings.doors import DoorsSettings

PATIENCE = ClientTimeouts(header_s=1.0, idle_s=1.0, rest_s=1.0, write_s=1.0, most_connections=150)


def made():
    app = FastAPI()
    limits = RequestLimits(max_body_bytes=1_000_000, body_deadline_s=2.0)
    install_door(app, OpenGuard("127.0.0.1"), DoorsSettings(), "127.0.0.1", limits)

    @app.get("/quick")
    async def quick() -> str:
        return "quick"

    @app.get("/slow")
    async def slow(wait_s: float) -> str:
        print("begun", flush=True)
        await asyncio.sleep(wait_s)
        return "slow"

    @app.post("/body")
    async def body(body: Annotated[dict, Body()]) -> int:
        return len(body)

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def parts():
            while True:
                yield b"x" * 65536
                await asyncio.sleep(0)

        return StreamingResponse(parts())

    return app


if __name__ == "__main__":
    port, drain_s = int(sys.argv[1]), float(sys.argv[2])
    serve(made(), Listening("127.0.0.1", port, drain_s=drain_s, patience=PATIENCE))
    print("ended", flush=True)
