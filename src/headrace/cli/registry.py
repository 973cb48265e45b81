"""`headrace registry`: the schema registry that producers and consumers ask, by HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
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
from headrace.connectors.schema_registry import registry_config
from headrace.doors.secret import secret_of
from headrace.doors.serving import serve, serving
from headrace.schema_registry.driver_key import keep_driver_key
from headrace.schema_registry.opening import registry_listening, registry_of
from headrace.settings import Settings
from headrace.store import open_store

_TLS = (
    "with doors.tls its name is yours to say, as registry: schema.registry.url in the YAML file, "
    "with a key of role schemas"
)
#: what else to do where somebody has the port of the registry of `up`
WITHOUT = (
    "; or, if that is 'headrace registry', name it in the YAML file (registry: "
    "schema.registry.url): drivers ask it, and 'headrace up' starts none. 'headrace up "
    "--no-registry' starts none this time"
)


def registry(
    config: ConfigOption = DEFAULT_CONFIG,
    host: HostOption = None,
    port: PortOption = None,
    insecure_no_auth: Annotated[
        bool,
        typer.Option(
            "--insecure-no-auth",
            help="Ask for no key: everybody on this machine may do everything.",
        ),
    ] = False,
    log_level: LevelOption = "INFO",
    log_format: FormatOption = LogFormat.AUTO,
) -> None:
    """Serve schemas to producers and consumers, until SIGTERM or Ctrl-C.

    Clients of Confluent's schema registry use it as they are: `schema.registry.url` is its address,
    and `basic.auth.user.info` is any name, a colon, and a key of `headrace keys create`. Schemas
    are kept in the store. A tenant's key sees and changes the subjects of its own topics.

    SIGTERM drains: nobody new is let in, what is under way is answered.
    """
    configure_logs(log_level, log_format)
    with for_a_door(config, "schema_registry", host, port) as (settings, _, store):
        app = registry_of(settings, store, insecure=insecure_no_auth)
        listening = registry_listening(settings)
        serve(app, listening, lambda url: say(f"schema registry  {url}", err))
    err.print("drained", highlight=False)


@contextmanager
def registry_beside(settings: Settings, key_file: Path) -> Iterator[dict[str, str]]:
    """Serve the registry in a thread beside something else; yields how drivers find it.

    Args:
        settings: where it listens.
        key_file: where the drivers' key is kept, as user and password.

    Raises:
        ConfigError: it cannot listen where the settings say, or the secret is missing.
        ServerError: it could not start.
    """
    with closing(open_store(settings.store_url())) as store:
        app = registry_of(settings, store)
        with serving(app, registry_listening(settings)) as url:
            say(f"schema registry  {url}", err)
            if settings.names_a_registry():
                named = registry_config(settings.registry_properties())
                say(f"         drivers ask the one that the YAML file names: {named}", err)
                yield {}
            elif settings.doors.tls is not None:
                say(f"         drivers ask none: {_TLS}", err)
                yield {}
            else:
                keep_driver_key(store.keys, secret_of(settings), time.time(), key_file)
                say(f"         drivers ask it, with the key in {key_file}", err)
                yield {"registry_url": url, "registry_user_file": str(key_file)}


def tell_named(settings: Settings) -> str:
    """Say that the registry which the YAML file names is asked; returns where readers find it.

    Raises:
        ConfigError: the section is not whole.
    """
    named = registry_config(settings.registry_properties())
    say(f"registry  {named}: the YAML file names it, and drivers ask it", err)
    return ",".join(server.url for server in named.servers)
