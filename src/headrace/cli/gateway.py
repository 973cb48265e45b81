"""`headrace gateway`: the HTTP door through which tenants send events."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    FormatOption,
    HostOption,
    LevelOption,
    LogFormat,
    PortOption,
    configure_logs,
    err,
    for_a_door,
)
from headrace.doors.door import guard_of, listening_of
from headrace.doors.guard import Doorkeeper
from headrace.doors.open_guard import OpenGuard
from headrace.doors.serving import serve
from headrace.gateway.opening import gateway_of
from headrace.ports import Store
from headrace.process.memory import calm_garbage_collection
from headrace.settings import Settings

#: beyond what a delivery may take, for the answer itself
_ANSWER_S = 5.0


def gateway(
    config: ConfigOption = DEFAULT_CONFIG,
    host: HostOption = None,
    port: PortOption = None,
    insecure_no_auth: Annotated[
        bool,
        typer.Option(
            "--insecure-no-auth",
            help="Ask for no key and believe the header X-Tenant; on this machine's own address "
            "only.",
        ),
    ] = False,
    log_level: LevelOption = "INFO",
    log_format: FormatOption = LogFormat.AUTO,
) -> None:
    """Take events over HTTP into the topics of tenants, until SIGTERM or Ctrl-C.

    The YAML file says which types there are:

    `gateway: {types: {visit: {topic: visits, schema: visit.json, key: /lead}}}`

    Each event goes to the topic `<tenant>.visits` and is acknowledged when Kafka has acknowledged
    it. The tenant is that of the key, which `headrace keys create` makes:

    `curl localhost:8601/v1/events/visit -H "Authorization: Bearer $KEY" --json '{"lead": "ada"}'`

    SIGTERM drains: nobody new is let in, what is under way is stored and answered.
    """
    configure_logs(log_level, log_format)
    with for_a_door(config, "gateway", host, port) as (settings, _, store):
        chosen = settings.gateway
        app = gateway_of(settings, _guard(settings, store, insecure_no_auth), store)
        drain_s = chosen.delivery_timeout + _ANSWER_S
        listening = listening_of(
            settings.doors, chosen.host, chosen.port, drain_s, section="gateway"
        )
        told = f"gateway at {chosen.host}:{chosen.port}, {', '.join(chosen.types)}"
        err.print(told, markup=False, highlight=False)
        # Full collections over all that is loaded would stop every request for long.
        calm_garbage_collection()
        try:
            serve(app, listening)
        finally:
            gc.unfreeze()
    err.print("drained", highlight=False)


def _guard(settings: Settings, store: Store, insecure: bool) -> Doorkeeper:
    if insecure:
        return OpenGuard(settings.gateway.host, tenant_from_header=True)
    return guard_of(settings, store.keys, most_requests=settings.gateway.most_requests)
