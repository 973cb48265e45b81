"""Thousands of live views that nobody reads, over real sockets: memory is bounded, others go on."""

import json
import resource
import socket
import threading
import time
from contextlib import ExitStack

import httpx
import psutil
import pytest

from headrace.console import live, watcher
from headrace.console.api import ApiParts, create_app
from headrace.console.opening import console_serving
from headrace.doors.door import RequestLimits, install_door
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.doors.protocol import ClientTimeouts
from headrace.doors.serving import Listening
from headrace.model.credentials import Role
from headrace.model.streams import Tenant
from headrace.process.clock import SystemClock
from headrace.settings.doors import DoorsSettings
from headrace.testing.memory_store import MemoryStore

pytestmark = pytest.mark.slow
SECRET = b"0123456789abcdef0123456789abcdef"
TENANTS = 1_000
PLACES = 500


@pytest.fixture
def store():
    store = MemoryStore()
    for number in range(TENANTS):
        store.registry.add_tenant(Tenant(f"tenant-{number:04}"))
    return store


@pytest.fixture
def key(store):
    text, key = new_key(Role.OPERATOR, None, "", SECRET, time.time())
    store.keys.add(key)
    return text


@pytest.fixture
def served(store):
    """Serve until the test ends; takes how long a client may take nothing."""
    with ExitStack() as stack:

        def serve(write_s=30.0):
            guard = Guard(store.keys, SECRET)
            parts = ApiParts(store, None, guard, SECRET, SystemClock(), most_clients=PLACES)
            app = create_app(parts)
            limits = RequestLimits(most_requests=20_000)
            install_door(app, guard, DoorsSettings(), "127.0.0.1", limits)
            patience = ClientTimeouts(most_connections=20_000, write_s=write_s)
            listening = Listening("127.0.0.1", 0, drain_s=5, patience=patience)
            return app, stack.enter_context(console_serving(app, listening))

        yield serve


def opened(url, key):
    """A client that asks for the live view and never reads."""
    host, port = url.removeprefix("http://").split(":")
    client = socket.socket()
    # A small window, so that what it does not read stays with the server.
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect((host, int(port)))
    request = f"GET /v1/live HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n"
    client.sendall(request.encode())
    return client


def until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def test_views_that_nobody_reads_take_little_memory_and_others_are_answered(served, store, key):
    app, url = served()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    process = psutil.Process()
    # What the tests before it hold open counts too.
    room = (hard if hard != resource.RLIM_INFINITY else 25_000) - process.num_fds() - 1_000
    many = min(10_000, room // 2)  # both ends of each are here
    headers = {"Authorization": f"Bearer {key}"}
    clients = []
    try:
        # Each request comes on a connection of its own: a kept one may be closed just before.
        alone = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=url, headers=headers, timeout=120, limits=alone) as api:
            assert api.get("/v1/tenants").status_code == 200
            before = process.memory_info().rss
            clients += [opened(url, key) for _ in range(many)]
            until(lambda: app.state.live.clients == PLACES)
            took = []
            for weight in range(1, 21):
                # All rows change, and each view would have to get all of them.
                for number in range(0, TENANTS, 7):
                    store.registry.set_weight(f"tenant-{number:04}", float(weight))
                begun = time.monotonic()
                assert api.get("/v1/tenants?limit=1000").status_code == 200
                took.append(time.monotonic() - begun)
                time.sleep(0.2)
            grown = process.memory_info().rss - before
        assert app.state.live.clients == PLACES
        assert sorted(took)[-2] < 2.0
        assert grown < PLACES * 200_000 + many * 30_000
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    until(lambda: app.state.live.clients == 0)


def test_a_view_that_takes_nothing_is_cut_off_and_its_place_is_free(
    served, store, key, monkeypatch
):
    # What the kernel takes for it has to be full first.
    monkeypatch.setattr(live, "EVERY_S", 0.1)
    monkeypatch.setattr(watcher, "FRESH_S", 0.05)
    app, url = served(write_s=1.0)
    stop = threading.Event()

    def change():
        weight = 1.0
        while not stop.wait(0.05):
            weight += 1
            for tenant in store.registry.tenants():
                store.registry.set_weight(tenant.name, weight)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        client = opened(url, key)
        until(lambda: app.state.live.clients == 1)
        until(lambda: app.state.live.clients == 0)
        client.close()
    finally:
        stop.set()
        changing.join()


def test_a_view_ends_with_the_server(store, key):
    guard = Guard(store.keys, SECRET)
    app = create_app(ApiParts(store, None, guard, SECRET, SystemClock()))
    headers = {"Authorization": f"Bearer {key}"}
    with ExitStack() as server:
        url = server.enter_context(console_serving(app, Listening("127.0.0.1", 0, drain_s=20)))
        with httpx.stream("GET", f"{url}/v1/live", headers=headers, timeout=60) as stream:
            lines = stream.iter_lines()
            first = json.loads(next(line for line in lines if '"whole"' in line)[6:])
            begun = time.monotonic()
            server.close()
            assert time.monotonic() - begun < 15
            assert not [line for line in lines if '"whole":true' in line and "tenant-" in line]
    assert len(first["items"]) == TENANTS
