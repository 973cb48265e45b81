"""`headrace run` and `headrace up`: a driver against given servers, or with its own."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from structlog.contextvars import bind_contextvars

from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    FormatOption,
    LevelOption,
    LogFormat,
    configure_logs,
    err,
    out,
    settings_and_folder,
    shown_errors,
)
from headrace.cli.console_server import consoled
from headrace.cli.options import DeployAnew, HealthHost, HealthPort, Master, Name
from headrace.cli.servers import (
    folder_of,
    port_before,
    remember,
    the_only_up,
    with_addresses,
)
from headrace.cycle.driver import Driver
from headrace.demo.chaos import broker_killed_at, run_chaos
from headrace.demo.run import DemoOptions, run_demo
from headrace.deploying.offer import driver_name
from headrace.doors.secret import made_secret_file
from headrace.embedded import EmbeddedKafka, EmbeddedPostgres, EmbeddedSmtp
from headrace.fleet.health import Pulse, answering
from headrace.process.signals import ComingUp, ending_on_signals
from headrace.running.assembly import Assembly, assembled, refuse_early
from headrace.running.live import LiveTable
from headrace.settings import Settings, read_settings
from headrace.versions.paths import as_asked, folder_of_file


class StoreKind(Enum):
    """What `up` keeps positions in."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


def run(  # noqa: PLR0913 - options of a command
    *,
    config: ConfigOption = DEFAULT_CONFIG,
    master: Master = None,
    log_level: LevelOption = "INFO",
    log_format: FormatOption = LogFormat.AUTO,
    name: Name = None,
    health_port: HealthPort = 0,
    health_host: HealthHost = "127.0.0.1",
    deploy: DeployAnew = False,
) -> None:
    """Run a driver against the servers that the YAML file names, until SIGTERM or Ctrl-C.

    It runs what was deployed, whatever lies in the folder; a use case that was never deployed is.

    Also through spark-submit, with the environment variable PYSPARK_PYTHON naming this Python:

    `spark-submit --master yarn $(python -c "import headrace.__main__ as m; print(m.__file__)") run`
    """
    configure_logs(log_level, log_format)
    with shown_errors(), ending_on_signals() as coming_up, ExitStack() as stack:
        settings, folder = settings_and_folder(config)
        settings = _with_options(settings, master, name)
        bind_contextvars(driver=driver_name(settings))
        pulse = Pulse(driver_name(settings))
        if health_port:
            stack.enter_context(answering(pulse, health_port, health_host))
        _drive(assembled(settings, folder, anew=deploy), pulse, coming_up)


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
    with_console: Annotated[
        bool, typer.Option("--console/--no-console", help="Serve the console too.")
    ] = True,
    deploy: DeployAnew = False,
) -> None:
    """Start what the YAML file does not name, then run a driver, and stay.

    Kafka, a mail server and a store keep their data in .headrace/up beside the YAML file, and the
    other commands find them there. `headrace up --store postgres` tries, on this machine, the
    store that a cluster needs. The console is served too; the first start prints a link to it.
    """
    configure_logs(log_level, log_format)
    with shown_errors(), ending_on_signals() as coming_up, ExitStack() as stack:
        settings, base = read_settings(config), folder_of_file(as_asked(config))
        # First: what is refused early takes a while to be checked, and other commands look here.
        stack.enter_context(the_only_up(folder_of(base)))
        settings = _with_options(settings, master, name)
        refuse_early(settings, base, _store_to_be(settings, folder_of(base), store))
        settings = _with_servers(settings, folder_of(base), store, stack)
        if with_console:
            stack.enter_context(consoled(settings, base))
        assembly = assembled(settings, base, anew=deploy, stay=True)
        _drive(assembly, Pulse(driver_name(settings)), coming_up)


def demo(
    folder: Annotated[Path, typer.Option(help="Where everything is kept.")] = Path(
        ".headrace/demo"
    ),
    rate: Annotated[float, typer.Option(min=1, help="Visits sent per second.")] = 350.0,
    master: Annotated[str, typer.Option(help="Spark master.")] = "local[2]",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Forget a demo that did not come to its end.")
    ] = False,
    acts: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=3,
            help="1: the visits; 2: trouble as well; 3: then go on until Ctrl-C, to look around. "
            "Left out: 3 on a terminal, else 2.",
            show_default=False,
        ),
    ] = None,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Kill -9 the driver twice and the broker once.")
    ] = False,
) -> None:
    """Watch 10,000 real visits of several tenants become scores, mails and files.

    Starts a real Kafka, a mail server and Spark on this machine; adds, suspends, resumes and
    removes tenants on the way; checks every result at the end. Kill it at any moment: the same
    command goes on.

    In the second act one tenant floods, one is slow, one fails, one hangs and one sends rubbish,
    while eight quiet ones go on as if nothing were.

    While it runs, a console shows every tenant; its link is printed first, with a line for curl
    that posts a visit of your own.

    With --chaos the first act alone is run, and everything is killed in the middle of it, twice.
    """
    # Failures are part of the second act; the table and the report show them.
    configure_logs("CRITICAL")
    with shown_errors():
        if chaos:
            raise typer.Exit(run_chaos(folder, rate, master, out))
        if acts is None:
            acts = 3 if sys.stdin.isatty() and out.is_terminal else 2
        run_demo(DemoOptions(folder, rate, master, fresh, acts, broker_killed_at()), out)


def _with_options(settings: Settings, master: str | None, name: str | None) -> Settings:
    if master:
        settings = settings.model_copy(update={"master": master})
    if name:
        driver = settings.driver.model_copy(update={"name": name})
        settings = settings.model_copy(update={"driver": driver})
    return settings


def _with_servers(
    settings: Settings, folder: Path, store: StoreKind | None, stack: ExitStack
) -> Settings:
    """The settings, completed with the addresses of servers that are started here."""
    addresses: dict[str, str] = {}
    if "bootstrap.servers" not in settings.kafka:
        port = port_before(folder, "bootstrap.servers")
        kafka = stack.enter_context(EmbeddedKafka(folder / "kafka", port))
        addresses["bootstrap.servers"] = kafka.bootstrap_servers
        _say(f"Kafka  {kafka.bootstrap_servers}")
    if settings.mail_url() is None:
        smtp = stack.enter_context(EmbeddedSmtp(folder / "mail", port_before(folder, "smtp_url")))
        addresses["smtp_url"] = smtp.url
        _say(f"mail   {smtp.url}, kept in {folder / 'mail'}")
    if not settings.names_a_store():
        addresses["database_url"] = _store(folder, store or _kind_kept_in(folder), stack)
    if not settings.names_a_secret():
        addresses["secret_file"] = str(made_secret_file(folder / "secret"))
    remember(folder, addresses)
    return with_addresses(settings, addresses)


def _store_to_be(settings: Settings, folder: Path, kind: StoreKind | None) -> str:
    """The URL of the store, as far as it is known before a server is there."""
    if settings.names_a_store():
        return settings.store_url()
    return f"{(kind or _kind_kept_in(folder)).value}:"


def _store(folder: Path, kind: StoreKind, stack: ExitStack) -> str:
    """The URL of a store that is kept in ``folder``."""
    if kind is StoreKind.POSTGRES:
        port = port_before(folder, "database_url")
        postgres = stack.enter_context(EmbeddedPostgres(folder / "postgres", port))
        _say(f"store  PostgreSQL, port {postgres.port}, kept in {postgres.folder}")
        return postgres.url
    _say(f"store  {folder / 'headrace.db'}")
    return f"sqlite:///{folder / 'headrace.db'}"


def _say(line: str) -> None:
    """Say where a server is; the path of a folder is text, whatever its name."""
    err.print(line, markup=False, highlight=False, soft_wrap=True)


def _kind_kept_in(folder: Path) -> StoreKind:
    """What `up` is to go on with: another store would begin every stream anew."""
    if (folder / "postgres" / "data").is_dir() and not (folder / "headrace.db").is_file():
        return StoreKind.POSTGRES
    return StoreKind.SQLITE


def _drive(assembly: AbstractContextManager[Assembly], pulse: Pulse, coming_up: ComingUp) -> None:
    with assembly as made:
        coming_up.came_up(made.stop)
        with LiveTable(made.driver) as live:

            def on_turn(driver: Driver) -> None:
                live.refresh()
                missing = [asdict(missing) for missing in driver.missing]
                pulse.turned(ready=driver.ready, facts={"missing": missing})

            clean = made.run(on_turn)
        _farewell(made, clean)


def _farewell(made: Assembly, clean: bool) -> None:
    done = made.driver.reporter.all.records_total
    word = "drained" if clean else "stopped before everything in flight had ended"
    err.print(f"{word}; {done} records committed in this run", highlight=False)
    if not clean:
        raise typer.Exit(1)
