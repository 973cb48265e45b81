"""`headrace tenants add`: tenants by name, or a list of them in a file; all of them or none."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from headrace.cli.amounts import counted
from headrace.cli.asking import ask_again, streams_begun
from headrace.cli.console import DEFAULT_CONFIG, err, out, print_json, say
from headrace.cli.tenant_file import read, text_of
from headrace.errors import ConfigError
from headrace.model.streams import Tenant
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
    typer.Option(help="Of tenants that are there already: fail, or skip, which leaves them alone."),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only look, add nothing.")]


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
        planned = addition(listed.tenants, store.registry.tenants(), listed.said)
    listed.refuse(_faults(planned, how))
    _do(store, planned, how, config, ["--file", str(file)])


def add_named(
    store: Store,
    wanted: Sequence[Tenant],
    said: Collection[str],
    how: How,
    config: Path,
    typed: Sequence[str],
) -> None:
    """Add tenants that were named; nothing at all if a name is wrong.

    Args:
        store: where.
        wanted: the tenants.
        said: which settings were said, of each of them.
        how: it is to be done.
        config: the YAML file that was named.
        typed: what was typed beside the names.

    Raises:
        ConfigError: names are wrong, each of which is told; or nobody can be asked.
    """
    planned = addition(wanted, store.registry.tenants(), [said] * len(wanted))
    if faults := _faults(planned, how):
        others = "nothing is done:\n" if len(wanted) > 1 else ""
        raise ConfigError(others + "\n".join(why for _, why in sorted(faults.items())))
    _do(store, planned, how, config, [*(tenant.name for tenant in wanted), *typed])


def _faults(planned: Addition, how: How) -> dict[int, str]:
    """Place in the list -> what is wrong."""
    if how.exists is Exists.SKIP:
        return planned.faults
    there = planned.there_faults.items()
    skip = {place: why.replace("skip those", "say --exists skip") for place, why in there}
    return {**planned.faults, **skip}


def _do(store: Store, planned: Addition, how: How, config: Path, said: Sequence[str]) -> None:
    """Add them, if it is no dry run, and tell of it; ``said`` is what was typed."""
    if not how.dry_run:
        _add(store, planned, how, config, said)
    if how.as_json:
        print_json({**planned.values(), "dry_run": how.dry_run})
        return
    if len(planned.wanted) == len(planned.names) == 1 and not how.dry_run:
        out.print(f"tenant {planned.names[0]} added")
    else:
        _tell(planned, how)
    if not how.dry_run:
        _tell_topics(store, planned.names, config)


def _add(store: Store, planned: Addition, how: How, config: Path, said: Sequence[str]) -> None:
    if planned.again and not (how.yes and how.as_json):
        begin = streams_begun(store, planned.again)
        skip = ["--exists", "skip"] if how.exists is Exists.SKIP else []
        ask_again(store, begin, config, how.yes, "tenants", "add", *said, *skip)
    with _shown(f"adding {counted(len(planned.names), 'tenant')} ..."):
        store.registry.add_tenants(planned.wanted, skip_there=how.exists is Exists.SKIP)


def check_alone(names: Sequence[str], limits: Sequence[object], file: Path | None) -> None:
    """Refuse what says twice, or not at all, what is to be added.

    Raises:
        ConfigError: what to leave out, or to say.
    """
    if file is None and not names:
        raise ConfigError("name the tenant to add, such as acme, or a list of them with --file")
    if file is not None and (names or any(value is not None for value in limits)):
        what = "the name" if names else "weight and limits"
        raise ConfigError(f"with --file the file says {what} of each tenant; leave it out here")


def _tell(planned: Addition, how: How) -> None:
    added = counted(len(planned.names), "tenant")
    out.print(f"{added} would be added" if how.dry_run else f"{added} added", highlight=False)
    if planned.again:
        out.print(f"{len(planned.again)} of them had been removed before", highlight=False)
    if planned.there:
        out.print(f"{len(planned.there)} there already: left as they are", highlight=False)
    for name, what in planned.differs.items():
        say(f"tenant {name} is there, and stays otherwise than it is listed: {what}")


def _tell_topics(store: Store, names: Sequence[str], config: Path) -> None:
    """Say what makes topics that are missing, for which streams wait without a word here.

    Kafka is not asked, so that tenants can be added while it is away.
    """
    if not streams_begun(store, names):
        return
    words = ["headrace", "topics", "create", "--inputs"]
    words += ["--tenant", names[0]] if len(names) == 1 else []
    words += [] if config == DEFAULT_CONFIG else ["--config", str(config)]
    say(f"a topic that is missing is made by '{shlex.join(words)}'", err)


def _shown(what: str) -> AbstractContextManager[object]:
    """Tell somebody who waits at a terminal what for."""
    return err.status(what) if err.is_terminal else nullcontext()
