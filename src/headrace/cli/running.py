"""`headrace run`: a driver against given servers; and `headrace demo`."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import structlog
import typer
from structlog.contextvars import bind_contextvars

from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    FormatOption,
    LevelOption,
    LogFormat,
    configure_logs,
    copies_at_risk,
    err,
    out,
    settings_and_folder,
    shown_errors,
)
from headrace.cli.ending import told_at_its_end
from headrace.cli.extra_servers import DemoExtra, DemoLog
from headrace.cli.options import DeployAnew, HealthHost, HealthPort, Master, Name
from headrace.cycle.driver import Driver
from headrace.deploying.offer import driver_name
from headrace.errors import ConfigError
from headrace.fleet.health import Pulse, answering
from headrace.process.signals import CLOSE_S, ComingUp, ending_on_signals
from headrace.process.standard_error import written_by_a_thread
from headrace.running.assembly import Assembly, assembled
from headrace.running.live import LiveTable
from headrace.settings import Settings

log = structlog.get_logger(__name__)


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
    with (
        shown_errors(),
        written_by_a_thread(),
        ending_on_signals() as coming_up,
        ExitStack() as stack,
    ):
        settings, folder = settings_and_folder(config)
        warn_of_copies(config, settings)
        settings = with_options(settings, master, name)
        bind_contextvars(driver=driver_name(settings))
        pulse = Pulse(driver_name(settings))
        if health_port:
            stack.enter_context(answering(pulse, health_port, health_host))
        if not drive(assembled(settings, folder, anew=deploy), pulse, coming_up):
            raise typer.Exit(1)


def warn_of_copies(config: Path, settings: Settings) -> None:
    """Say so where copies of what is deployed go with a release that a link leads to."""
    if (trouble := copies_at_risk(config, settings)) is not None:
        log.warning("what is deployed goes with its release", why=trouble)


def demo(  # noqa: PLR0913 - options of a command
    *,
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
    with_servers_of: Annotated[
        list[DemoExtra] | None,
        typer.Option(
            "--with",
            help="Keep the visits in this server too; it takes some 20 s to start, and memory.",
            show_default=False,
        ),
    ] = None,
    replicate: Annotated[
        bool,
        typer.Option(
            "--replicate",
            help="Have the visits searched in an OpenSearch, and the last one of each lead cached "
            "in a Valkey; some 20 s to start, and 700 MB of memory.",
        ),
    ] = False,
    through: Annotated[
        DemoLog,
        typer.Option(
            "--log",
            help="What the visits go through. Kinesis is played by kinesis-mock, which needs Node; "
            "its shards are split and merged on the way.",
        ),
    ] = DemoLog.KAFKA,
) -> None:
    """Watch 10,000 real visits of several tenants become scores, mails and files.

    Starts a real Kafka, a mail server and Spark on this machine; adds, suspends, resumes and
    removes tenants on the way; checks every result at the end. Kill it at any moment: the same
    command goes on. It needs `pip install 'headrace[demo]'`.

    In the second act one tenant floods, one is slow, one fails, one hangs and one sends rubbish,
    while eight quiet ones go on as if nothing were.

    While it runs, a console shows every tenant; its link is printed first, with a line for curl
    that posts a visit of your own.

    Visits are kept in a Delta table as well where deltalake is installed, and in Cassandra with
    `--with cassandra`, in OpenSearch and Valkey with `--replicate`; all are read back and held
    against what was sent, record by record.

    With `--log kinesis` they go through streams of Kinesis, and the second act through Kafka as
    ever; that needs `pip install 'headrace[demo,delta,kinesis]'`, and starts afresh when stopped.

    With --chaos the first act alone is run, and everything is killed in the middle of it, twice.
    """
    # With it come web servers, and each driver would import them.
    from headrace.demo.chaos import broker_killed_at, run_chaos  # noqa: PLC0415
    from headrace.demo.run import DemoOptions, run_demo  # noqa: PLC0415
    from headrace.demo.tables import Asked  # noqa: PLC0415

    kinesis = through is DemoLog.KINESIS
    asked = Asked(DemoExtra.CASSANDRA in (with_servers_of or ()), replicate, kinesis)
    # Failures are part of the second act; the table and the report show them.
    configure_logs("CRITICAL")
    with shown_errors():
        if chaos and kinesis:
            raise ConfigError(
                "the Kinesis of the demo has visits in memory, so a kill would lose them: leave "
                "out --chaos, or --log kinesis"
            )
        if chaos:
            raise typer.Exit(run_chaos(folder, rate, master, out, asked))
        if acts is None:
            acts = 3 if sys.stdin.isatty() and out.is_terminal else 2
        killed_at = broker_killed_at()
        run_demo(DemoOptions(folder, rate, master, fresh, acts, killed_at, asked), out)


def with_options(settings: Settings, master: str | None, name: str | None) -> Settings:
    """The settings, with what was typed."""
    if master:
        settings = settings.model_copy(update={"master": master})
    if name:
        driver = settings.driver.model_copy(update={"name": name})
        settings = settings.model_copy(update={"driver": driver})
    return settings


def drive(assembly: AbstractContextManager[Assembly], pulse: Pulse, coming_up: ComingUp) -> bool:
    """Turn until asked to end, with a table of it; False if something was cut short."""
    with told_at_its_end("Spark, and what the driver has open", assembly) as made:
        coming_up.came_up(made.stop, made.drain_timeout_s + CLOSE_S)
        with LiveTable(made.driver) as live:

            def on_turn(driver: Driver) -> None:
                live.refresh()
                missing = [asdict(missing) for missing in driver.missing]
                pulse.turned(ready=driver.ready, facts={"missing": missing})

            clean = made.run(on_turn)
        done = made.driver.reporter.all.records_total
        word = "drained" if clean else "stopped before everything in flight had ended"
        err.print(f"{word}; {done} records committed in this run", highlight=False)
        return clean
