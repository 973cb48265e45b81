"""`headrace console`: the control API, its pages and the metrics, in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
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
    say,
)
from headrace.cli.our_registry import drivers_ask_ours
from headrace.cli.servers import folder_of, remembered
from headrace.console.opening import (
    console_app,
    console_listening,
    console_serving,
    first_key,
    login_link,
)
from headrace.deploying.offer import connections_of, with_seal_key
from headrace.doors.secret import secret_of
from headrace.doors.serving import serve
from headrace.errors import ConfigError
from headrace.operating.tools import KafkaTools
from headrace.ports import Store
from headrace.process.clock import SystemClock
from headrace.settings import Settings
from headrace.store import open_store

Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure-no-auth",
        help="Ask nobody for a key: everybody on this machine may do everything.",
    ),
]


def console(
    config: ConfigOption = DEFAULT_CONFIG,
    host: HostOption = None,
    port: PortOption = None,
    insecure: Insecure = False,
    log_level: LevelOption = "INFO",
    log_format: FormatOption = LogFormat.AUTO,
) -> None:
    """Serve the console: pages for operators, the control API under /v1, and /metrics.

    It shows what the drivers of the store tell, on http://127.0.0.1:8600 unless the YAML file says
    otherwise. The first start makes a key and prints a link that logs in; more keys come from
    `headrace keys create`. Runs until SIGTERM or Ctrl-C.

    Example: `headrace console`, or `headrace console --host 0.0.0.0 --port 443` with TLS
    """
    configure_logs(log_level, log_format)
    with for_a_door(config, "console", host, port) as (settings, folder, store):
        tools = KafkaTools(with_seal_key(connections_of(settings, folder), store))
        ours = drivers_ask_ours(settings, store.keys, remembered(folder_of(folder)))
        app = console_app(
            settings, store, tools, SystemClock(), insecure=insecure, own_registry=ours
        )
        listening = console_listening(settings)
        # A key that is shown once is not shown for a console that does not come up.
        serve(app, listening, lambda url: tell(settings, store, url, insecure=insecure))


@contextmanager
def consoled(settings: Settings, folder: Path) -> Iterator[str]:
    """Serve the console in a thread beside something else; yields its URL.

    If its port is taken, and nobody asked for that one, it listens on another.

    Raises:
        ConfigError: it cannot listen where the settings say, or the secret is missing.
        ServerError: it could not start.
    """
    connections, chosen = connections_of(settings, folder), settings.console
    with closing(open_store(settings.store_url())) as store, ExitStack() as stack:
        tools = KafkaTools(with_seal_key(connections, store))
        ours = drivers_ask_ours(settings, store.keys, remembered(folder_of(folder)))
        app = console_app(settings, store, tools, SystemClock(), own_registry=ours)
        listening = console_listening(settings)
        try:
            url = stack.enter_context(console_serving(app, listening))
        except ConfigError:
            if "port" in chosen.model_fields_set:
                raise
            url = stack.enter_context(console_serving(app, replace(listening, port=0)))
        tell(settings, store, url, insecure=False)
        yield url


def tell(settings: Settings, store: Store, url: str, *, insecure: bool) -> None:
    """Say where the console is, with a link that logs in if there was no key of an operator yet."""
    key = None if insecure else first_key(store.keys, secret_of(settings), SystemClock().now_s())
    if key is None:
        say(f"console  {url}", err)
        return
    say(
        f"console  {login_link(url, key)}\n"
        "         this link is shown once, and whoever has it may do everything; other keys: "
        "headrace keys create",
        err,
    )
