"""`headrace tables`: Delta tables, kept fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.amounts import counted
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    err,
    print_json,
    print_table,
    say,
    settings_and_folder,
    shown_errors,
)
from headrace.connectors.delta.library import BeatenError
from headrace.connectors.delta.upkeep import LEAST_HOURS, Crowd, Merged, Upkeep, kept_at, kept_in
from headrace.embedded.progress import Progress
from headrace.ports import Connections

app = typer.Typer(no_args_is_help=True, help="Delta tables: merge small files, remove old ones.")
_WEEK_H = 168

NameArgument = Annotated[str, typer.Argument(help="Its folder, as the sink names it.")]
AtOption = Annotated[
    str | None,
    typer.Option(help="The connection of an object store, as the sink names it.", metavar="NAME"),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only look, change nothing.")]


@app.callback()
def _tables() -> None:
    pass


@app.command()
def optimize(
    name: NameArgument,
    *,
    at: AtOption = None,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Merge small files of a Delta table, so that readers open fewer of them.

    Every slice that is written makes a file in each partition it has rows of. This writes those
    below 100 MiB together, a partition at a time, each in a commit of its own: stop it whenever you
    like. Drivers go on meanwhile, and readers see the same rows before and after. Run it once a
    day, say, on partitions that are written to no more, and `headrace tables vacuum` later: the
    files that were merged stay until then. A partition that another one merges at the same time is
    left to it.

    Example: `headrace tables optimize visits --dry-run`
    """
    with shown_errors():
        table = _kept(config, name, at)
        found = table.crowds()
        done = [] if dry_run else _merged(table, found)
    if as_json:
        print_json(_told(found, done, dry_run=dry_run))
    elif dry_run:
        _show(found)
    else:
        before, after = (sum(files) for files in zip(*done, strict=True)) if done else (0, 0)
        out_of = counted(len(found), "partition")
        say(f"{name}: {out_of}, {counted(before, 'file')} merged into {after}")


@app.command()
def vacuum(
    name: NameArgument,
    *,
    at: AtOption = None,
    retention_hours: Annotated[
        int, typer.Option(help=f"Keep what was in the table so long ago; at least {LEAST_HOURS}.")
    ] = _WEEK_H,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Remove files that a Delta table has had no use for since some hours, a week if not said.

    These are files that were merged, and files of tasks that were killed before they could commit
    them. Whoever still reads a version of the table that is older than that loses its files; rows
    that are in the table are never touched. Drivers may go on meanwhile.

    Example: `headrace tables vacuum visits --retention-hours 24 --dry-run`
    """
    with shown_errors():
        table = _kept(config, name, at)
        with Progress(f"looking for files of {name}"):
            files = table.vacuum(retention_hours, dry_run=dry_run)
    if as_json:
        print_json({"files": files, "removed": not dry_run})
        return
    if dry_run:
        for file in files:
            say(file)
    say(f"{name}: {counted(len(files), 'file')} {'would be removed' if dry_run else 'removed'}")


def _kept(config: Path, name: str, at: str | None) -> Upkeep:
    settings, folder = settings_and_folder(config)
    if at is not None:
        return kept_at(Connections({}, "", servers=settings.servers()), at, name)
    return kept_in((folder / settings.warehouse).resolve(), name)


def _merged(table: Upkeep, found: list[Crowd]) -> list[Merged]:
    done: list[Merged] = []
    with Progress("merging partitions", len(found)) as progress:
        for crowd in found:
            try:
                done.append(table.merge(crowd))
            except BeatenError:
                say(f"{crowd}: somebody else changes it; left alone", err)
            progress.step(str(crowd))
    return done


def _told(found: list[Crowd], done: list[Merged], *, dry_run: bool) -> dict[str, object]:
    return {
        "partitions": [
            {"partition": dict(c.partition), "small_files": c.files, "bytes": c.bytes}
            for c in found
        ],
        "merged": not dry_run,
        "files_before": sum(one.before for one in done),
        "files_after": sum(one.after for one in done),
    }


def _show(found: list[Crowd]) -> None:
    table = Table("partition", "small files", "MiB", box=None)
    for crowd in found:
        table.add_row(Text(str(crowd)), str(crowd.files), f"{crowd.bytes / 2**20:.1f}")
    print_table(table)
