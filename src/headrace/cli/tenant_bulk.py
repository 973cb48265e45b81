"""`headrace tenants add --file`: a list of tenants, all of them or none."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from headrace.cli.amounts import counted
from headrace.cli.asking import ask_again, streams_begun
from headrace.cli.console import err, out, print_json
from headrace.cli.tenant_file import read, text_of
from headrace.errors import ConfigError
from headrace.operating.adding import Addition, addition
from headrace.ports import Store


class Exists(StrEnum):
    """What becomes of a tenant of a list that is there already."""

    FAIL = "fail"
    SKIP = "skip"


FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        help="Many: CSV with a header, a JSON array or JSON lines; - is stdin. Columns: name, "
        "state, weight, records_per_s, bytes_per_s, burst_s.",
        show_default=False,
    ),
]
ExistsOption = Annotated[
    Exists,
    typer.Option(help="With --file: of tenants that are there, fail, or skip: leave them alone."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="With --file: only look, add nothing.")
]


class How(NamedTuple):
    """How a list is to be added."""

    exists: Exists
    dry_run: bool
    yes: bool
    as_json: bool


def add_file(store: Store, file: Path, how: How, config: Path) -> None:
    """Add the tenants of a file; nothing at all if a line of it is wrong.

    Raises:
        ConfigError: lines are wrong, each of which is named; or nobody can be asked.
    """
    with _shown(f"reading {file} ..."):
        listed = read(*text_of(file, sys.stdin))
        planned = addition(listed.tenants, store.registry.tenants())
    faults = dict(planned.faults)
    if how.exists is Exists.FAIL:
        for place, why in planned.there_faults.items():
            faults[place] = why.replace("skip those", "say --exists skip")
    listed.refuse(faults)
    if not how.dry_run:
        _add(store, planned, how, config, str(file))
    if how.as_json:
        print_json({**planned.values(), "dry_run": how.dry_run})
    else:
        _tell(planned, how)


def _add(store: Store, planned: Addition, how: How, config: Path, file: str) -> None:
    if planned.again and not (how.yes and how.as_json):
        begin = streams_begun(store, planned.again)
        skip = ["--exists", "skip"] if how.exists is Exists.SKIP else []
        ask_again(store, begin, config, how.yes, "tenants", "add", "--file", file, *skip)
    with _shown(f"adding {counted(len(planned.names), 'tenant')} ..."):
        store.registry.add_tenants(planned.wanted, skip_there=how.exists is Exists.SKIP)


def check_alone(given: Sequence[object], how: How, *, by_file: bool) -> None:
    """Refuse what says twice, or not at all, what is to be added.

    Raises:
        ConfigError: what to leave out, or to say.
    """
    name = given[0]
    if not by_file and name is None:
        raise ConfigError("name the tenant to add, such as acme, or a list of them with --file")
    if not by_file and (how.dry_run or how.as_json or how.exists is not Exists.FAIL):
        raise ConfigError("--dry-run, --exists and --json are for a list of tenants, with --file")
    if by_file and any(value is not None for value in given):
        what = "the name" if name is not None else "weight and limits"
        raise ConfigError(f"with --file the file says {what} of each tenant; leave it out here")


def _tell(planned: Addition, how: How) -> None:
    added = counted(len(planned.names), "tenant")
    out.print(f"{added} would be added" if how.dry_run else f"{added} added", highlight=False)
    if planned.again:
        out.print(f"{len(planned.again)} of them had been removed before", highlight=False)
    if planned.there:
        out.print(f"{len(planned.there)} there already: left as they are", highlight=False)


def _shown(what: str) -> AbstractContextManager[object]:
    """Tell somebody who waits at a terminal what for."""
    return err.status(what) if err.is_terminal else nullcontext()
