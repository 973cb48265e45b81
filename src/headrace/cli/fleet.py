"""`headrace supervise`, `headrace roll` and `headrace fleet`: drivers that are kept running."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.amounts import counted
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    FormatOption,
    JsonOption,
    LevelOption,
    LogFormat,
    configure_logs,
    err,
    out,
    print_json,
    print_table,
    settings_and_folder,
    shown_errors,
)
from headrace.cli.failure_text import printable, when
from headrace.cli.options import HealthHost, HealthPort, Master, Name
from headrace.deploying.offer import connections_of, driver_name
from headrace.errors import ConfigError
from headrace.fleet import state_file
from headrace.fleet.state_file import DriverView, FleetView
from headrace.fleet.states import EXIT_TEMPORARY, Phase, RestartRules
from headrace.fleet.supervise import Wanted, supervise
from headrace.process.signals import CLOSE_S
from headrace.process.standard_error import written_by_a_thread
from headrace.settings import Settings
from headrace.versions.paths import as_asked

app = typer.Typer(no_args_is_help=True, help="The drivers of a supervisor: how they are.")

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        envvar="HEADRACE_STATE",
        help="Folder for state and logs; none: .headrace/fleet/NAME beside NAME.yaml.",
    ),
]
_LOOK_EVERY_S = 0.2
#: characters of a line of an error, in a table
_BRIEF = 120


@app.callback()
def _fleet() -> None:
    pass


def supervise_(  # noqa: PLR0913 - options of a command
    *,
    config: ConfigOption = DEFAULT_CONFIG,
    drivers: Annotated[
        int, typer.Option(min=1, max=64, envvar="HEADRACE_DRIVERS", help="How many.")
    ] = 1,
    name: Name = None,
    master: Master = None,
    log_level: LevelOption = "INFO",
    log_format: FormatOption = LogFormat.AUTO,
    health_port: HealthPort = 0,
    health_host: HealthHost = "127.0.0.1",
    console: Annotated[
        bool, typer.Option("--log-to-stdout", help="Drivers write to stdout, not to files.")
    ] = False,
    state: State = None,
) -> None:
    """Run drivers, each in a process of its own, and start again those that end.

    SIGTERM or Ctrl-C drains all, a second one ends them at once. SIGHUP, or `headrace roll`,
    replaces them one at a time. One that keeps dying is given up; the others take over its streams.

    Exits with 0 when all have drained, with 1 when one had to be killed or all were given up, and
    with 2 if the YAML file is wrong. (A use case file that does not load gives its drivers up.)
    """
    configure_logs(log_level, log_format)
    with shown_errors(), written_by_a_thread():
        settings, folder = settings_and_folder(config)
        connections_of(settings, folder)
        wanted = Wanted(
            name or driver_name(settings),
            drivers,
            _command(_options(config, log_level, log_format, master)),
            folder_of(config, state),
            _rules(settings),
            health_port,
            health_host,
            console,
        )
        if not _kept_running(wanted):
            raise typer.Exit(1)


def supervised(  # noqa: PLR0913, PLR0917 - what was typed
    config: Path,
    settings: Settings,
    drivers: int,
    log_level: str,
    log_format: LogFormat,
    master: str | None,
    name: str | None,
) -> bool:
    """Keep drivers running in processes of their own until asked to end; whether all ended well.

    Args:
        config: the YAML file; the servers that it does not name are those of `up`.
        settings: what stands in it.
        drivers: how many.
        log_level: theirs.
        log_format: theirs.
        master: theirs, over the YAML file.
        name: what they are called, with a number behind it.

    Raises:
        ServerError: another supervisor has the folder.
    """
    command = _command(_options(config, log_level, log_format, master))
    base = name or driver_name(settings)
    return _kept_running(Wanted(base, drivers, command, folder_of(config, None), _rules(settings)))


def _options(config: Path, log_level: str, log_format: LogFormat, master: str | None) -> list[str]:
    options = ["--config", str(as_asked(config))]
    options += ["--log-level", log_level, "--log-format", log_format.value]
    return options if master is None else [*options, "--master", master]


def _rules(settings: Settings) -> RestartRules:
    return RestartRules(drain_s=settings.driver.drain_timeout + CLOSE_S)


def _kept_running(wanted: Wanted) -> bool:
    clean = supervise(wanted)
    err.print("all drivers have ended" if clean else _worst(wanted.folder))
    return clean


def roll(
    config: ConfigOption = DEFAULT_CONFIG,
    state: State = None,
    wait: Annotated[bool, typer.Option(help="Wait until it is done.")] = True,
) -> None:
    """Replace the drivers of the running supervisor, one at a time, by what is installed now.

    Each drains, and the next one goes only when its replacement is ready. Exits with 1 if a
    replacement was given up; those not replaced yet then go on as they were.

    Example: `headrace roll`
    """
    with shown_errors():
        folder = folder_of(config, state)
        before = _living(folder)
        os.kill(before.pid, signal.SIGHUP)
        if not wait:
            out.print("roll asked")
            return
        view = _until_rolled(folder, before)
        if view.roll_error:
            err.print(f"roll stopped: {view.roll_error}", markup=False, highlight=False)
            raise typer.Exit(1)
        out.print("all drivers are replaced")


@app.command()
def status(
    as_json: JsonOption = False, config: ConfigOption = DEFAULT_CONFIG, state: State = None
) -> None:
    """Show each driver of the supervisor: state, pid, since when, restarts, what is missing, error.

    Exits with 1 if no supervisor runs, a driver was given up, or one is without store or Kafka;
    else with 75 as long as one is not ready, as while it starts; with 0 when all are.

    Example: `headrace fleet status`
    """
    with shown_errors():
        folder = folder_of(config, state)
        view, lives = state_file.read(folder), state_file.lives(folder)
        if view is None:
            raise ConfigError(_where(f"no supervisor has ever used {folder}"))
        if not lives:
            view = replace(view, state="ended", drivers=tuple(map(_left_behind, view.drivers)))
        if as_json:
            print_json(asdict(view))
        else:
            _print_drivers(view)
            _print_supervisor(view, lives=lives)
        if code := exit_code_of(view, lives=lives):
            raise typer.Exit(code)


def exit_code_of(view: FleetView, *, lives: bool) -> int:
    """For scripts: 0 when all drivers are ready, 75 while one is on its way, else 1."""
    if not lives or any(
        driver.state == Phase.GIVEN_UP or driver.missing for driver in view.drivers
    ):
        return 1
    return 0 if all(driver.state == Phase.READY for driver in view.drivers) else EXIT_TEMPORARY


def _left_behind(driver: DriverView) -> DriverView:
    """A driver of a supervisor that has ended: sure is only that one had stopped."""
    return driver if driver.state == "stopped" else replace(driver, state="unknown", missing=())


def _print_drivers(view: FleetView) -> None:
    names = ("driver", "state", "pid", "since", "restarts", "missing", "last error")
    table = Table(*names, box=None)
    for driver in view.drivers:
        missing = [f"{one.what} since {when(one.since_s)}" for one in driver.missing]
        table.add_row(
            Text(printable(driver.name)),
            driver.state,
            "-" if driver.pid is None else str(driver.pid),
            when(driver.since_s),
            str(driver.restarts),
            printable(", ".join(missing)) or "-",
            Text(printable(_in_brief(driver.error))),
        )
    print_table(table)


def _in_brief(error: str) -> str:
    """How it ended and its last word, in one line; all of it is in its log, and for programs."""
    first, *more = error.splitlines() or [""]
    told = [first, *more[-1:]]
    return " | ".join(f"{line[:_BRIEF]}…" if len(line) > _BRIEF else line for line in told)


def _print_supervisor(view: FleetView, *, lives: bool) -> None:
    if not lives:
        told = f"supervisor {view.name} (pid {view.pid}) has ended"
        err.print(told, markup=False, highlight=False)
        return
    rolling = ", rolling" if view.rolling else ""
    ready = sum(driver.state == Phase.READY for driver in view.drivers)
    out.print(
        f"supervisor {view.name} (pid {view.pid}) is {view.state}{rolling}; "
        f"{ready} of {counted(len(view.drivers), 'driver')} ready",
        markup=False,
        highlight=False,
    )
    if view.roll_error:
        out.print(f"the last roll stopped: {view.roll_error}", markup=False, highlight=False)


def _command(options: Sequence[str]) -> Callable[[str, int], list[str]]:
    start = [sys.executable, "-m", "headrace", "run", *options]
    return lambda name, port: [*start, "--name", name, "--health-port", str(port)]


def folder_of(config: Path, state: Path | None) -> Path:
    """Where a supervisor keeps its state and its drivers' logs."""
    return state or config.resolve().parent / ".headrace" / "fleet" / config.stem


def _living(folder: Path) -> FleetView:
    view = state_file.read(folder)
    if view is None or not state_file.lives(folder):
        raise ConfigError(_where(f"no supervisor runs in {folder}"))
    return view


def _where(trouble: str) -> str:
    return (
        f"{trouble}. One that was given another folder is found by --state or HEADRACE_STATE; "
        "'headrace supervise' starts one. A single driver, such as that of 'headrace run' or "
        "'headrace up', has none: 'headrace streams list' shows what it does"
    )


def _until_rolled(folder: Path, before: FleetView) -> FleetView:
    """Wait for the end of a roll that was asked for, telling of each driver.

    Raises:
        ConfigError: the supervisor ended meanwhile.
    """
    shown: dict[str, str] = {}
    while True:
        view = _living(folder)
        begun = view.rolls > before.rolls
        for driver in view.drivers:
            if begun and shown.get(driver.name) != driver.state:
                shown[driver.name] = driver.state
                out.print(f"{driver.name} {driver.state}", markup=False, highlight=False)
        if begun and not view.rolling:
            return view
        time.sleep(_LOOK_EVERY_S)


def _worst(folder: Path) -> Text:
    """Why a supervisor does not end well."""
    view = state_file.read(folder)
    lines = [
        f"{driver.name} {driver.state}: {driver.error}"
        for driver in (view.drivers if view else ())
        if driver.error
    ]
    return Text("\n".join([*lines, "not all drivers ended as they should"]))
