"""The demo's doors, where others have their usual ports."""

import socket
from contextlib import closing
from types import SimpleNamespace
from urllib.parse import urlsplit

from headrace.demo import doors
from headrace.demo.poster import POSTED
from headrace.demo.visits import GUEST
from headrace.model.streams import Tenant
from headrace.settings import Settings
from headrace.store import open_store


def test_a_port_that_is_taken_while_spark_starts_or_between_two_acts_gives_way(
    tmp_path, monkeypatch
):
    with socket.socket() as one, socket.socket() as other:
        usual = []
        for name, held in (("CONSOLE_PORT", one), ("GATEWAY_PORT", other)):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            usual.append(held.getsockname()[1])
            monkeypatch.setattr(doors, name, usual[-1])
        chosen = Settings.model_validate(
            {
                "module": "m",
                "kafka": {"bootstrap.servers": "127.0.0.1:1"},
                "master": "local[2]",
                "registry": {"schema.registry.url": "http://127.0.0.1:1"},
                **doors.sections(tmp_path),
            }
        )
        assert [chosen.console.port, chosen.gateway.port] == usual
        one.listen()
        other.listen()
        found = opened(chosen, tmp_path)
    assert found.isdisjoint(usual)


def opened(settings: Settings, folder) -> set[int]:
    with closing(open_store(f"sqlite:///{folder / 'store.db'}")) as store:
        for name in (*POSTED, GUEST):
            store.registry.add_tenant(Tenant(name))
        made = SimpleNamespace(store=store, connections=None)
        with doors.doors(made, settings, folder, with_gateway=True) as at:
            return {urlsplit(url).port for url in (at.console_link, at.gateway_url)}
