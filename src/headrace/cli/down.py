"""`headrace down` and `headrace reset`: the end of an `up`, and of what it has kept."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated

import psutil
import typer

from headrace.cli.asking import YesOption, confirm
from headrace.cli.console import DEFAULT_CONFIG, ConfigOption, err, say, shown_errors
from headrace.cli.fleet import folder_of as fleet_folder_of
from headrace.cli.servers import Extra, folder_of
from headrace.embedded.folder_lock import FolderLock, holder
from headrace.errors import ConfigError, ServerError
from headrace.fleet.process import end_leftovers
from headrace.settings import read_settings
from headrace.versions.paths import as_asked, folder_of_file

#: servers, of which each has its folder and a lock on it
_SERVERS = ("kafka", "postgres", "mail", *(extra.value for extra in Extra))
#: after its drain_timeout a driver cancels what runs, and then Spark and the servers close
_CLOSE_S = 90.0
#: for what a killed one has left behind
_LEFT_S = 60.0
_LOOK_EVERY_S = 0.1


def down(
    config: ConfigOption = DEFAULT_CONFIG,
    wait_s: Annotated[
        float | None,
        typer.Option(
            "--wait-s",
            min=0,
            help="Seconds until it is killed; none: its drain_timeout and 90 s.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """End the `headrace up` that runs in this folder, and wait for it; what it kept stays.

    It is asked to drain. One that has not ended in time is killed, with all of its servers; that
    loses nothing that was committed, and the exit code is 1. With none that runs it is 0.

    Example: `headrace down`, then `headrace up` goes on
    """
    with shown_errors():
        folder = folder_of(folder_of_file(as_asked(config)))
        process = holder(folder)
        if process is None:
            say(f"no 'headrace up' runs here ({folder})")
            return
        patience_s = _patience_s(config) if wait_s is None else wait_s
        say(f"'headrace up' (process {process}) is asked to end")
        its_own = _with_children(process)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
        if _ended(folder, its_own, patience_s):
            say(f"it has ended; kept in {folder}: 'headrace up' goes on")
            return
        if (process := holder(folder)) is not None:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        _await_leftovers(config, folder)
        say(
            f"it had not ended after {patience_s:g} s and was killed; what was committed is kept "
            f"in {folder}: 'headrace up' goes on",
            err,
        )
        raise typer.Exit(1)


def reset(yes: YesOption = False, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Remove all that `headrace up` has kept in this folder: topics, store, mails, keys, ports.

    Says first what that is, and asks. Not touched: your files, the warehouse, and servers that the
    YAML file names. While `up` runs, nothing is removed.

    Example: `headrace reset`, or `headrace reset --yes` in a script
    """
    with shown_errors():
        folder = folder_of(folder_of_file(as_asked(config)))
        _refuse_running(folder)
        if not folder.is_dir():
            say(f"nothing is kept here ({folder})")
            return
        files, size = _measured(folder)
        say(f"this removes {folder}: {files} files, {size / 1_000_000:.1f} MB")
        say(f"in it: {', '.join(_parts(folder)) or 'nothing of a server'}")
        say("not touched: your files, the warehouse, and servers that the YAML file names")
        if not yes:
            confirm(config, "reset")
        _remove(folder)
        say("removed; 'headrace up' starts afresh")


def _remove(folder: Path) -> None:
    with ExitStack() as stack:
        # Somebody may have started it while we asked; and what was killed may be about to end.
        _refuse_running(folder)
        stack.enter_context(FolderLock(folder))
        for server in _SERVERS:
            if (folder / server).is_dir():
                stack.enter_context(FolderLock(folder / server))
        # At once: should this be cut short, no half of it is taken for the whole.
        aside = folder.with_name(f"{folder.name}.removed-{os.getpid()}")
        try:
            folder.rename(aside)
            shutil.rmtree(aside)
        except OSError as exc:
            raise ServerError(f"{exc.filename} cannot be removed: {exc.strerror}") from exc


def _refuse_running(folder: Path) -> None:
    if (process := holder(folder)) is not None:
        raise ConfigError(
            f"'headrace up' runs here (process {process}); 'headrace down' ends it, and then "
            "'headrace reset' removes what it kept"
        )


def _patience_s(config: Path) -> float:
    try:
        return read_settings(config).driver.drain_timeout + _CLOSE_S
    except ConfigError:  # the file was changed since, and that is no reason not to end
        return _CLOSE_S


def _ended(folder: Path, its_own: list[psutil.Process], patience_s: float) -> bool:
    """Whether nobody holds the folder in time; then processes that still end have a while more."""
    deadline_s = time.monotonic() + patience_s
    while holder(folder) is not None:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_LOOK_EVERY_S)
    last_s = time.monotonic() + _LEFT_S
    while any(map(_runs, its_own)) and time.monotonic() < last_s:
        time.sleep(_LOOK_EVERY_S)
    return True


def _with_children(process: int) -> list[psutil.Process]:
    """It, and what it has started: Spark's Java ends a moment after it has given up the folder."""
    with suppress(psutil.Error):
        found = psutil.Process(process)
        return [found, *found.children(recursive=True)]
    return []


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _await_leftovers(config: Path, folder: Path) -> None:
    """Wait for servers, which notice that their parent is gone, and end drivers of their own."""
    end_leftovers(fleet_folder_of(config, None), _LEFT_S)
    for server in _SERVERS:
        if (folder / server).is_dir():
            FolderLock(folder / server, _LEFT_S, wait_for_living=True).close()


def _measured(folder: Path) -> tuple[int, int]:
    sizes = list(_sizes(folder))
    return len(sizes), sum(sizes)


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.is_file() and not path.is_symlink():
                yield path.stat().st_size


def _parts(folder: Path) -> list[str]:
    said = {
        "kafka": "topics with all records",
        "headrace.db": "the store in SQLite (tenants, positions, keys, rows of SQL sinks)",
        "postgres": "the store in PostgreSQL (tenants, positions, keys, rows of SQL sinks)",
        "mail": "mails",
        "cassandra": "the tables in Cassandra",
        "valkey": "the entries in Valkey",
        "opensearch": "the indexes in OpenSearch",
        "solr": "the indexes in Solr",
        "hbase": "the tables in HBase",
        "kinesis": "the streams in Kinesis",
        "registry-key": "the drivers' key at the schema registry",
        "ports.json": "ports",
    }
    return [words for name, words in said.items() if (folder / name).exists()]
