"""Several registries on one store, and what becomes of schemas when one is killed."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from headrace.embedded import EmbeddedPostgres
from headrace.embedded.addresses import free_ports
from headrace.model.credentials import Role
from registry_process import RegistryProcess, made_keys

pytestmark = pytest.mark.slow


def record(name):
    return json.dumps({"type": "record", "name": name, "fields": []})


def put(registry, keys, subject, name, timeout=60):
    return httpx.post(
        f"{registry.url}/subjects/{subject}/versions",
        json={"schema": record(name)},
        auth=("ops", keys[Role.OPERATOR]),
        timeout=timeout,
    )


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    server = request.getfixturevalue("own_postgres")
    return server.url


@pytest.fixture
def own_postgres(open_folder, tmp_path):
    (port,) = free_ports(1)
    with EmbeddedPostgres(open_folder / tmp_path.name, port) as server:
        yield server


def test_two_processes_come_to_one_id_and_one_version(store_url, tmp_path):
    keys = made_keys(store_url)
    places = [tmp_path / "one", tmp_path / "two"]
    with RegistryProcess(places[0], store_url) as one, RegistryProcess(places[1], store_url) as two:
        with ThreadPoolExecutor(8) as threads:
            told = [
                [*threads.map(lambda r, n=n: put(r, keys, "a", f"R{n}").json(), [one, two] * 4)]
                for n in range(1)
            ]
            spread = [
                *threads.map(
                    lambda n: put((one, two)[n % 2], keys, f"s{n // 2}", f"R{n // 2}").json(),
                    range(40),
                )
            ]
        assert {(row["id"], row["version"]) for row in told[0]} == {(1, 1)}
        assert [row["id"] for row in spread[::2]] == [row["id"] for row in spread[1::2]]
        assert {row["version"] for row in spread} == {1}


def test_a_registry_that_is_killed_loses_nothing_that_it_acknowledged(store_url, tmp_path):
    keys = made_keys(store_url)
    with RegistryProcess(tmp_path / "one", store_url) as registry:
        acknowledged, enough = {}, threading.Event()

        def load(thread):
            for number in range(500):
                subject = f"s{thread}-{number}"
                try:
                    answer = put(registry, keys, subject, f"R{thread}x{number}")
                except httpx.TransportError:
                    return
                if answer.status_code == 200:
                    acknowledged[subject] = answer.json()
                if len(acknowledged) >= 60:
                    enough.set()

        threads = [threading.Thread(target=load, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        registry.kill()
        for thread in threads:
            thread.join()
        registry.start()
        for subject, row in acknowledged.items():
            found = httpx.get(
                f"{registry.url}/subjects/{subject}/versions/1",
                auth=("ops", keys[Role.OPERATOR]),
                timeout=60,
            ).json()
            assert (found["id"], found["schema"]) == (row["id"], row["schema"])
        newest = max(row["id"] for row in acknowledged.values())
        assert put(registry, keys, "later", "Later").json()["id"] > newest


def test_a_database_that_is_away_is_503_and_nothing_is_half_done(own_postgres, tmp_path):
    keys = made_keys(own_postgres.url)
    with RegistryProcess(tmp_path / "one", own_postgres.url) as registry:
        assert put(registry, keys, "a", "One").json()["id"] == 1
        own_postgres.stop()
        answer = put(registry, keys, "a", "Two")
        assert (answer.status_code, answer.json()["error_code"]) == (503, 50001)
        own_postgres.start()
        assert put(registry, keys, "b", "Two").json()["id"] == 2
