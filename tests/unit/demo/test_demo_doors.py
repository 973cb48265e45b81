"""The demo's doors, where others have their usual ports."""

import socket

from headrace.demo import doors
from headrace.settings import Settings


def test_where_the_usual_ports_are_taken_the_demo_has_others(tmp_path, monkeypatch):
    with socket.socket() as one, socket.socket() as other:
        taken = []
        for name, held in (("CONSOLE_PORT", one), ("GATEWAY_PORT", other)):
            held.bind(("127.0.0.1", 0))
            held.listen()
            taken.append(held.getsockname()[1])
            monkeypatch.setattr(doors, name, taken[-1])
        made = Settings.model_validate(
            {"module": "m", "kafka": {}, "master": "local[2]", **doors.sections(tmp_path)}
        )
    assert min(made.console.port, made.gateway.port) > 0
    assert {made.console.port, made.gateway.port}.isdisjoint(taken)
