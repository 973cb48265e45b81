"""A tenant's own server that answers byte by byte, while others wait."""

import socket
import threading
import time
from contextlib import contextmanager

import pyarrow as pa
import pytest

from headrace.connectors import tenants
from headrace.connectors.redis.library import library
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import RedisHashes

MOMENT_S = 0.4
EVERY_S = 0.05
#: what nobody is waited for: it is refused at once
NOBODY = "redis://127.0.0.1:1/0"


@contextmanager
def dripping(answer, *, greeted=0):
    """The port of a server that takes so many commands, and then says a byte now and then."""
    over, held = threading.Event(), []

    def talk(one):
        try:
            for _ in range(greeted):
                one.recv(65536)
                one.sendall(b"+OK\r\n")
            one.recv(65536)
            for byte in answer:
                one.sendall(bytes([byte]))
                if over.wait(EVERY_S):
                    return
        except OSError:
            return

    def take():
        while True:
            try:
                one, _ = listening.accept()
            except OSError:
                return
            held.append(one)
            threading.Thread(target=talk, args=(one,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=take, daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            for one in held:
                one.close()


def effect_of(tenant):
    slices = (Slice(LaneId("keep", tenant, 0), "visits", 0, 9, epoch=1),)
    return Effect(slices, (9,), pa.table({"id": pa.array([1], pa.int64())}))


ENDLESS = b"+" + b"a" * 1_000
#: what the client says of itself before it is asked for anything
GREETED = 2


@pytest.mark.parametrize(
    ("user", "greeted", "answer"),
    [
        ("", 0, ENDLESS),
        ("", GREETED, ENDLESS),
        ("", GREETED, b"$1000\r\n" + b"a" * 1_000),
        ("", GREETED, b"+OK\r\n" * 200),
        ("me:secret@", 0, ENDLESS),
    ],
    ids=["greeting", "line", "text", "answers", "login"],
)
def test_a_server_that_answers_byte_by_byte_has_its_moment_and_no_more(
    monkeypatch, user, greeted, answer
):
    library()  # to import it takes its time
    monkeypatch.setattr(tenants, "MOMENT_S", MOMENT_S)
    with dripping(answer, greeted=greeted) as port:
        servers = {
            "c-slow": Server(f"redis://{user}127.0.0.1:{port}/0"),
            "c-next": Server(NOBODY),
        }
        site = Site(Connections({}, "", servers=servers), None, in_company=True)
        sink = RedisHashes("x", {"id": "bigint"}, key=("id",), newest_by="id", at="c-{tenant}")
        began_s = time.monotonic()
        slow, neighbour = sink.open(site).write([effect_of("slow"), effect_of("next")])
        took_s = time.monotonic() - began_s
    assert took_s < 4 * MOMENT_S
    assert slow.error.code == "TenantsSinkSlow"
    assert not neighbour.untried
    assert neighbour.error.code == "SinkUnavailable"
