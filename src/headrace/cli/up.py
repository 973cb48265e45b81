"""`headrace up`: a driver, or several, with servers of its own on this machine."""

from __future__ import annotations

from contextlib import ExitStack, closing
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import typer

from headrace.cli.amounts import counted
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    FormatOption,
    LevelOption,
    LogFormat,
    configure_logs,
    err,
    say,
    shown_errors,
)
from headrace.cli.console_server import consoled
from headrace.cli.ending import told_at_its_end
from headrace.cli.extra_servers import with_extras
from headrace.cli.fleet import folder_of as fleet_folder_of
from headrace.cli.fleet import supervised
from headrace.cli.kept_ports import KeptPorts
from headrace.cli.options import DeployAnew, Master, Name
from headrace.cli.registry import WITHOUT, registry_beside, tell_named
from headrace.cli.running import drive, warn_of_copies, with_options
from headrace.cli.servers import Extra, folder_of, remember, remembered, the_only_up, with_addresses
from headrace.deploying.offer import driver_name
from headrace.deploying.starting import begin
from headrace.doors.secret import made_secret_file
from headrace.embedded import EmbeddedKafka, EmbeddedPostgres, EmbeddedSmtp
from headrace.fleet.health import Pulse
from headrace.model.places import FIRST
from headrace.model.streams import State
from headrace.process.signals import ending_on_signals
from headrace.process.standard_error import written_by_a_thread
from headrace.running.assembly import assembled, refuse_early
from headrace.settings import Settings, read_settings
from headrace.store import open_store
from headrace.versions.paths import as_asked, folder_of_file


class StoreKind(Enum):
    """What `up` keeps positions in."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


def up(  # noqa: PLR0913 - options of a command
    *,
    config: ConfigOption = DEFAULT_CONFIG,
    master: Master = None,
    log_level: LevelOption = "INFO",
    log_format: FormatOption = LogFormat.AUTO,
    name: Name = None,
    store: Annotated[
        StoreKind | None,
        typer.Option(
            help="Where positions are kept, unless the YAML file names a store: in a SQLite file, "
            "or in a PostgreSQL that is started here. Each has positions of its own. Left out: the "
            "one that is there, or SQLite."
        ),
    ] = None,
    drivers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="So many drivers, supervised, each in a process of its own; kill one, and another "
            "takes over. Left out: one, in this process.",
            show_default=False,
        ),
    ] = None,
    with_console: Annotated[
        bool, typer.Option("--console/--no-console", help="Serve the console too.")
    ] = True,
    with_registry: Annotated[
        bool | None,
        typer.Option(
            "--registry/--no-registry",
            help="Serve a schema registry too, and let drivers ask it unless the YAML file names "
            "one. Left out: as the last time that drivers asked it.",
            show_default=False,
        ),
    ] = None,
    with_servers_of: Annotated[
        list[Extra] | None,
        typer.Option(
            "--with",
            help="Start this server too, for sinks that write there at the connection of its name. "
            "Once started it comes with every later start.",
            show_default=False,
        ),
    ] = None,
    new_ports: Annotated[
        bool, typer.Option("--new-ports", help="Take other ports than the last time.")
    ] = False,
    deploy: DeployAnew = False,
) -> None:
    """Start what the YAML file does not name, then run a driver, and stay.

    Kafka, a mail server and a store keep their data and their ports in .headrace/up beside the YAML
    file, and the other commands find them there. `headrace up --store postgres` tries, on this
    machine, the store that a cluster needs. The console is served too; the first start prints a
    link to it. Ctrl-C, or `headrace down` in a second terminal, ends it; `headrace reset` removes
    what it kept.
    """
    configure_logs(log_level, log_format)
    with (
        shown_errors(),
        written_by_a_thread(),
        ending_on_signals() as coming_up,
        ExitStack() as stack,
    ):
        settings, base = read_settings(config), folder_of_file(as_asked(config))
        warn_of_copies(config, settings)
        folder = folder_of(base)
        # First: what is refused early takes a while to be checked, and other commands look here.
        stack.enter_context(the_only_up(folder))
        settings = with_options(settings, master, name)
        refuse_early(settings, base, _store_to_be(settings, folder, store))
        ports = KeptPorts(folder, anew=new_ports)
        settings = with_servers(settings, folder, store, stack, ports)
        settings = with_extras(settings, folder, with_servers_of or (), stack, ports)
        if with_console:
            settings = _with_port(settings, ports, "console", "console")
            stack.enter_context(told_at_its_end("the console", consoled(settings, base)))
        key_file = folder / "registry-key"
        # Use cases of yesterday ask it, and would be refused without.
        goes_on = with_registry is None and key_file.is_file() and not settings.names_a_registry()
        if with_registry or goes_on:
            settings = _with_port(settings, ports, "schema registry", "schema_registry")
            settings = _with_registry(settings, key_file, stack)
        _tell_kept(settings, folder, ports, registry=goes_on)
        if drivers is None:
            pulse = Pulse(driver_name(settings))
            clean = drive(assembled(settings, base, anew=deploy, stay=True), pulse, coming_up)
        else:
            with closing(open_store(settings.store_url())) as opened:
                begin(settings, base, opened, anew=deploy, stay=True)
            logs = fleet_folder_of(config, None) / "logs"
            say(f"logs   {logs}; 'headrace fleet status' tells more", err)
            clean = supervised(config, settings, drivers, log_level, log_format, master, name)
        say(f"kept in {folder}: 'headrace up' goes on, 'headrace reset' removes it", err)
        if not clean:
            raise typer.Exit(1)


def with_servers(
    settings: Settings, folder: Path, store: StoreKind | None, stack: ExitStack, ports: KeptPorts
) -> Settings:
    """The settings, completed with the addresses of servers that are started here."""
    addresses: dict[str, str] = {}
    if "bootstrap.servers" not in settings.kafka:
        data = folder / "kafka"
        say("starting Kafka ...", err)
        kafka = EmbeddedKafka(data, ports.take("Kafka", data))
        stack.enter_context(told_at_its_end("Kafka", kafka))
        addresses["bootstrap.servers"] = kafka.bootstrap_servers
        say(f"Kafka  {kafka.bootstrap_servers}", err)
    if settings.mail_url() is None:
        data = folder / "mail"
        smtp = stack.enter_context(EmbeddedSmtp(data, ports.take("mail server", data)))
        addresses["smtp_url"] = smtp.url
        say(f"mail   {smtp.url}, kept in {data}", err)
    if not settings.names_a_store():
        kind = store or _kind_kept_in(folder)
        addresses["database_url"] = _store(folder, kind, stack, ports)
    if not settings.names_a_secret():
        addresses["secret_file"] = str(made_secret_file(folder / "secret"))
    if settings.names_a_registry():
        addresses["registry_url"] = tell_named(settings)
    remember(folder, addresses)
    return with_addresses(settings, addresses)


def _with_registry(settings: Settings, key_file: Path, stack: ExitStack) -> Settings:
    """The settings, completed with the registry that is served here; other commands find it too."""
    beside = registry_beside(settings, key_file)
    found = stack.enter_context(told_at_its_end("the schema registry", beside))
    if found:
        folder = key_file.parent
        remember(folder, {**remembered(folder), **found})
    return with_addresses(settings, found)


def _store_to_be(settings: Settings, folder: Path, kind: StoreKind | None) -> str:
    """The URL of the store, as far as it is known before a server is there."""
    if settings.names_a_store():
        return settings.store_url()
    return f"{(kind or _kind_kept_in(folder)).value}:"


def _store(folder: Path, kind: StoreKind, stack: ExitStack, ports: KeptPorts) -> str:
    """The URL of a store that is kept in ``folder``."""
    if kind is StoreKind.POSTGRES:
        data = folder / "postgres"
        say("starting PostgreSQL ...", err)
        postgres = EmbeddedPostgres(data, ports.take("PostgreSQL", data))
        stack.enter_context(told_at_its_end("PostgreSQL", postgres))
        say(f"store  PostgreSQL, port {postgres.port}, kept in {postgres.folder}", err)
        return postgres.url
    say(f"store  {folder / 'headrace.db'}", err)
    return f"sqlite:///{folder / 'headrace.db'}"


def _with_port(
    settings: Settings,
    ports: KeptPorts,
    server: str,
    section: Literal["console", "schema_registry"],
) -> Settings:
    """The settings with the port of a door, unless the YAML file says it."""
    chosen = getattr(settings, section)
    if "port" in chosen.model_fields_set:
        return settings
    without = WITHOUT if section == "schema_registry" else ""
    port = ports.take(server, wished=chosen.port, without=without)
    if port != chosen.port:
        # Said once and for all: the next start takes this one.
        say(f"the {server} listens on port {port} from now on", err)
    return settings.model_copy(update={section: chosen.model_copy(update={"port": port})})


def _tell_kept(settings: Settings, folder: Path, ports: KeptPorts, *, registry: bool) -> None:
    """Say what is there from earlier starts, and where."""
    with closing(open_store(settings.store_url())) as store:
        tenants = [
            tenant for tenant in store.registry.tenants() if tenant.state is not State.REMOVED
        ]
        positions = store.progress.load_positions()
        begun = sum(position.next_offset > FIRST for position in positions)
    told = f"{counted(len(tenants), 'tenant')}, {counted(begun, 'lane')} begun"
    told += ", the schema registry (--no-registry: not today)" if registry else ""
    say(f"kept   {told}; ports: {ports.told or 'none'}; in {folder}", err)
    if not tenants:
        say("next   'headrace tenants add NAME' in a second terminal", err)


def _kind_kept_in(folder: Path) -> StoreKind:
    """What `up` is to go on with: another store would begin every stream anew."""
    if (folder / "postgres" / "data").is_dir() and not (folder / "headrace.db").is_file():
        return StoreKind.POSTGRES
    return StoreKind.SQLITE
