"""`headrace tenants suspend`, `resume` and `remove`: one tenant, some, or a list of them.

Of a list all are changed or none, in one step: whatever is wrong is told first, each name by its
place. Who is asked before a removal has agreed to the customers that were there then; if one was
added anew while the question stood, nothing is done.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.amounts import counted
from headrace.cli.asking import YesOption, ask_removal, tell_removal
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    out,
    print_json,
    say,
    store_of,
)
from headrace.cli.tenant_file import read, text_of
from headrace.errors import ConfigError
from headrace.model.some_names import some_of
from headrace.model.streams import State
from headrace.operating.changing import StateChange, state_change
from headrace.ports import Store

Names = Annotated[
    list[str] | None,
    typer.Argument(help="The tenant, such as acme, or several.", show_default=False),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        "-f",
        help="Many: CSV with a column name, a JSON array or JSON lines, as for 'tenants add'; "
        "- is stdin. Other columns say nothing here.",
        show_default=False,
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only look, change nothing.")]

#: names that a line has at most
_SHOWN = 10
_TOLD = {State.SUSPENDED: "suspended", State.ACTIVE: "active", State.REMOVED: "removed"}


def suspend(
    names: Names = None,
    file: FileOption = None,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Stop planning tenants; positions are kept.

    Example: `headrace tenants suspend acme`, or `headrace tenants suspend --file tenants.csv`
    """
    with store_of(config) as store:
        planned = _planned(store, names or [], file, State.SUSPENDED)
        _change(store, planned, dry_run=dry_run)
        _tell(planned, dry_run=dry_run, as_json=as_json)


def resume(
    names: Names = None,
    file: FileOption = None,
    *,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Go on with suspended tenants where they stopped.

    Example: `headrace tenants resume acme`, or `headrace tenants resume --file tenants.csv`
    """
    with store_of(config) as store:
        planned = _planned(store, names or [], file, State.ACTIVE)
        _change(store, planned, dry_run=dry_run)
        _tell(planned, dry_run=dry_run, as_json=as_json)
        if not as_json and not dry_run:
            _tell_stopped(store, [tenant.name for tenant in planned.wanted])


def remove(
    names: Names = None,
    file: FileOption = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Remove tenants. What is in flight may end; their topics and results are left alone.

    Their API keys are gone with them. Added again, a tenant starts at startingOffsets, and what it
    had read may be read again. So it says first how much is not read yet, and asks. To pause a
    tenant, use suspend.

    Example: `headrace tenants remove acme`, or
    `headrace tenants remove --file gone.csv --dry-run`
    """
    with store_of(config) as store:
        planned = _planned(store, names or [], file, State.REMOVED)
        if planned.changed and not yes and not dry_run:
            typed = ["--file", str(file)] if file is not None else list(names or [])
            ask_removal(store, planned.changed, config, "tenants", "remove", *typed)
        elif planned.changed and dry_run and not as_json:
            tell_removal(store, planned.changed, config)
        _change(store, planned, dry_run=dry_run)
        _tell(planned, dry_run=dry_run, as_json=as_json)


def _planned(store: Store, names: Sequence[str], file: Path | None, state: State) -> StateChange:
    """What becomes of whom.

    Raises:
        ConfigError: nobody is named, or twice; or names are wrong, each of which is told.
    """
    if (file is None) == (not names):
        why = "both name them: leave one out" if names else "nobody is named"
        raise ConfigError(f"{why}; name tenants, such as acme, or give a list of them with --file")
    if file is not None:
        listed = read(*text_of(file, sys.stdin), names_alone=True)
        listed_names = [tenant.name for tenant in listed.tenants]
        planned = state_change(listed_names, state, store.registry.tenants())
        listed.refuse(planned.faults)
        return planned
    planned = state_change(names, state, store.registry.tenants())
    if planned.faults:
        others = "nothing is done:\n" if len(names) > 1 else ""
        raise ConfigError(others + "\n".join(planned.faults.values()))
    return planned


def _change(store: Store, planned: StateChange, *, dry_run: bool) -> None:
    if not dry_run:
        store.registry.set_tenant_states(planned.wanted, planned.state)


def _tell(planned: StateChange, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({**planned.values(), "dry_run": dry_run})
        return
    told, changed = _TOLD[planned.state], len(planned.changed)
    if len(planned.wanted) == 1 and not dry_run:
        say(f"tenant {planned.wanted[0].name} is {told}")
        return
    are = "would be" if dry_run else ("is" if changed == 1 else "are")
    which = f": {some_of(planned.changed, _SHOWN)}" if changed else ""
    say(f"{counted(changed, 'tenant')} {are} {told}{which}")
    if planned.already:
        out.print(f"{len(planned.already)} had been so already", highlight=False)


def _tell_stopped(store: Store, names: Sequence[str]) -> None:
    """Of tenants that go on: what of theirs does not, and what lets it."""
    failures = store.failures.every(only_open=True, with_records=False)
    stopped, ours = Counter(failure.slice.lane.stream for failure in failures), set(names)
    lines = []
    for stream in store.registry.streams():
        if stream.id.tenant not in ours or stream.state is State.REMOVED:
            continue
        more = f"'headrace streams resume {stream.id}'"
        if stream.state is State.SUSPENDED:
            why = f" ({stream.reason})" if stream.reason else ""
            lines.append(f"its stream {stream.id} stays suspended{why}: {more} lets it go on")
        elif lanes := stopped[stream.id]:
            stays = "stays" if lanes == 1 else "stay"
            lines.append(
                f"{counted(lanes, 'lane')} of its stream {stream.id} {stays} stopped at a failure: "
                f"{more} retries what failed"
            )
    if len(names) > 1 and lines:
        stay = "stays" if len(lines) == 1 else "stay"
        shows = "'headrace streams list' shows why, and 'headrace quarantine list' at what"
        lines = [f"{counted(len(lines), 'stream')} of theirs {stay} stopped: {shows}"]
    for line in lines:
        say(line)
