"""A server that answers byte by byte: one of all tenants, and one's own, while others wait."""

import time

import pyarrow as pa
import pytest

from dripping import dripping
from headrace.connectors import tenants
from headrace.connectors.redis.library import library
from headrace.connectors.redis.servers import Address, Cache
from headrace.errors import SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import RedisHashes

MOMENT_S = 0.4
#: what nobody is waited for: it is refused at once
NOBODY = "redis://127.0.0.1:1/0"


def effect_of(tenant):
    slices = (Slice(LaneId("keep", tenant, 0), "visits", 0, 9, epoch=1),)
    return Effect(slices, (9,), pa.table({"id": pa.array([1], pa.int64())}))


ENDLESS = b"+" + b"a" * 200
#: to what the client says of itself before it is asked for anything
GREETED = (b"+OK\r\n",) * 2


@pytest.mark.parametrize(
    ("user", "answers", "drips"),
    [
        ("", (), ENDLESS),
        ("", GREETED, ENDLESS),
        ("", GREETED, b"$200\r\n" + b"a" * 200),
        ("", GREETED, b"+OK\r\n" * 200),
        ("me:secret@", (), ENDLESS),
    ],
    ids=["greeting", "line", "text", "answers", "login"],
)
def test_a_server_that_answers_byte_by_byte_has_its_moment_and_no_more(
    monkeypatch, user, answers, drips
):
    library()  # to import it takes its time
    monkeypatch.setattr(tenants, "MOMENT_S", MOMENT_S)
    with dripping(drips, answers=answers) as port:
        servers = {
            "c-slow": Server(f"redis://{user}127.0.0.1:{port}/0"),
            "c-next": Server(NOBODY),
        }
        site = Site(Connections({}, "", servers=servers), None, in_company=True)
        sink = RedisHashes("x", {"id": "bigint"}, key=("id",), newest_by="id", at="c-{tenant}")
        began_s = time.monotonic()
        slow, neighbour = sink.open(site).write([effect_of("slow"), effect_of("next")])
        took_s = time.monotonic() - began_s
    assert took_s < 10 * MOMENT_S
    assert slow.error.code == "TenantsSinkSlow"
    assert not neighbour.untried


@pytest.mark.parametrize(
    ("drips", "ask"),
    [
        (ENDLESS, lambda cache: cache.asked("GET", "a")),
        (ENDLESS, lambda cache: cache.each([("GET", "a")])),
        (b"+OK\r\n" * 200, lambda cache: cache.each([("GET", "a")] * 100)),
    ],
    ids=["asked", "line", "answers"],
)
def test_a_server_of_all_that_answers_byte_by_byte_is_given_up_in_the_time_for_an_answer(
    drips, ask
):
    library()
    with dripping(drips, answers=GREETED) as port:
        cache = Cache("c", Address("127.0.0.1", port, 0, tls=False), (MOMENT_S, MOMENT_S))
        began_s = time.monotonic()
        with pytest.raises(SinkUnavailable, match="it may be written or not"):
            ask(cache)
        assert time.monotonic() - began_s < 6 * MOMENT_S
        cache.close()
