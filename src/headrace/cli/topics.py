"""`headrace topics`: the topics that tenants of a use case read and write."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    err,
    print_json,
    print_table,
    say,
    settings_and_folder,
    store_of,
)
from headrace.connectors.kafka.topic_shapes import TopicShape
from headrace.deploying.offer import connections_of, load
from headrace.errors import ConfigError, TargetMissing, UnknownName
from headrace.model.streams import State, Stream
from headrace.model.topic_patterns import is_pattern, pattern_of
from headrace.operating.topics import (
    TopicOutcome,
    each_tenant_has_its_own,
    made,
    wanted_topics,
)
from headrace.ports import Store
from headrace.splitting import brings_parked
from headrace.use_cases import UseCase

app = typer.Typer(no_args_is_help=True, help="Topics of tenants: make those that are missing.")


@app.callback()
def _topics() -> None:
    pass


@app.command()
def create(  # noqa: PLR0913 - options of a command
    use_case: Annotated[
        str | None, typer.Argument(help="Only those of this use case.", show_default=False)
    ] = None,
    *,
    tenant: Annotated[
        list[str] | None,
        typer.Option(help="Only those of this tenant; may be said again.", show_default=False),
    ] = None,
    inputs: Annotated[
        bool, typer.Option("--inputs", help="Also the topics that are read.")
    ] = False,
    partitions: Annotated[
        int | None, typer.Option(help="Of each new topic; none: as the sink or the broker says.")
    ] = None,
    replication: Annotated[
        int | None, typer.Option(help="Copies of each partition; none: as sink or broker say.")
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(help="7d, 12h, 30m or forever; none: as the sink or the broker says."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only look, make nothing.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Make the topics that use cases write to for their tenants; one that is there is left alone.

    A use case writes to topics if its sink is a KafkaTopic; `--inputs` adds those that it reads,
    which otherwise are their senders' to make. Exits with 1 if one cannot be made.

    Example: `headrace topics create book --tenant acme`, or `headrace topics create --dry-run`
    """
    with store_of(config) as store:
        said = TopicShape(partitions, replication, retention)
        settings, folder = settings_and_folder(config)
        with redirect_stdout(sys.stderr):  # a module may print; what we print may be JSON
            offer = load(settings, folder)
        use_cases = _chosen(offer.use_cases.values(), use_case)
        streams = store.registry.streams()
        _refuse_strangers(tenant or (), use_cases, streams)
        wanted = wanted_topics(use_cases, streams, said, inputs=inputs, tenants=tenant or ())
        found = made(connections_of(settings, folder).kafka, wanted, dry_run=dry_run)
        waiting = _not_deployed(store, use_cases, inputs=inputs)
        if not found and not as_json:
            raise ConfigError(_nothing_wanted(use_cases, waiting, inputs=inputs))
        stopped = _stopped(store, {chosen.name for chosen in use_cases})
    if as_json:
        print_json([_row(outcome, dry_run=dry_run) for outcome in found])
    else:
        _show(found, dry_run=dry_run)
        if not dry_run:
            _tell_resumes(stopped, config)
    if waiting:
        say(_left_out(waiting), err)
    if inputs:
        _tell_parked(use_cases)
        for told in _of_patterns(use_cases):
            say(told, err)
    if any(outcome.error for outcome in found):
        raise typer.Exit(1)


def _tell_parked(use_cases: Sequence[UseCase]) -> None:
    for name in sorted(use_case.name for use_case in use_cases if brings_parked(use_case)):
        say(
            f"{name}: the topics that it reads are not to be made; the splitter makes one when it "
            "parks something",
            err,
        )


def _of_patterns(use_cases: Sequence[UseCase]) -> list[str]:
    return [
        f"{use_case.name}: the topics that it reads are not to be made here: it reads each one "
        f"that its pattern {pattern_of(use_case.topic)} matches, by whomever it is made"
        for use_case in sorted(use_cases, key=lambda one: one.name)
        if is_pattern(use_case.topic)
    ]


def _chosen(known: Collection[UseCase], name: str | None) -> list[UseCase]:
    chosen = [use_case for use_case in known if name in (None, use_case.name)]
    if not chosen:
        names = ", ".join(sorted(use_case.name for use_case in known))
        raise UnknownName(f"there is no use case {name} in the file; it has {names}")
    return chosen


def _refuse_strangers(
    tenants: Collection[str], use_cases: Collection[UseCase], streams: Collection[Stream]
) -> None:
    """A name that is mistyped makes no topic."""
    names = {use_case.name for use_case in use_cases}
    known = {stream.id.tenant for stream in streams if stream.id.use_case in names}
    for tenant in tenants:
        if tenant not in known:
            raise UnknownName(
                f"tenant {tenant} has no stream of {', '.join(sorted(names))}: "
                f"'headrace tenants add {tenant}' adds a tenant, and before the first deployment "
                "'headrace use-cases deploy' makes streams"
            )


def _stopped(store: Store, names: Collection[str]) -> list[str]:
    """Use cases that have a lane which stopped for want of a topic."""
    failures = store.failures.every(only_open=True, with_records=False)
    return sorted(
        {
            failure.slice.lane.use_case
            for failure in failures
            if failure.error.code == TargetMissing.__name__ and failure.slice.lane.use_case in names
        }
    )


def _state(outcome: TopicOutcome, *, dry_run: bool) -> str:
    if outcome.was_there:
        return "there already"
    if outcome.error:
        return "not made"
    return "would be made" if dry_run else "made"


def _row(outcome: TopicOutcome, *, dry_run: bool) -> dict[str, Any]:
    wanted = outcome.wanted
    return {
        "topic": wanted.topic,
        "use_case": wanted.use_case,
        "tenant": wanted.tenant,
        "output": wanted.is_output,
        "state": _state(outcome, dry_run=dry_run),
        "partitions": wanted.shape.partitions,
        "replication": wanted.shape.replication,
        "retention": wanted.shape.retention,
        "error": outcome.error,
    }


def _show(found: Sequence[TopicOutcome], *, dry_run: bool) -> None:
    table = Table("topic", "use case", "tenant", "", "state", "note", box=None)
    for outcome in found:
        wanted = outcome.wanted
        table.add_row(
            Text(wanted.topic),
            wanted.use_case,
            wanted.tenant or "all",
            "written" if wanted.is_output else "read",
            _state(outcome, dry_run=dry_run),
            Text(outcome.error or ""),
        )
    print_table(table)


def _not_deployed(store: Store, use_cases: Sequence[UseCase], *, inputs: bool) -> list[str]:
    """Use cases for which tenants would have topics, had they been deployed."""
    if all(tenant.state is State.REMOVED for tenant in store.registry.tenants()):
        return []
    deployed = {deployment.use_case for deployment in store.registry.deployments()}
    return sorted(
        use_case.name
        for use_case in use_cases
        if use_case.name not in deployed and each_tenant_has_its_own(use_case, inputs=inputs)
    )


def _left_out(waiting: Sequence[str]) -> str:
    return (
        f"{', '.join(waiting)}: not deployed yet, so no tenant has a stream of it, and its topics "
        "are left out: 'headrace up' deploys it while it starts, 'headrace use-cases deploy' at "
        "once; then say this again"
    )


def _nothing_wanted(use_cases: Sequence[UseCase], waiting: Sequence[str], *, inputs: bool) -> str:
    if waiting:
        return _left_out(waiting)
    if all(is_pattern(use_case.topic) for use_case in use_cases):
        return f"nothing is to be made: {'; '.join(_of_patterns(use_cases))}"
    names = ", ".join(sorted(use_case.name for use_case in use_cases))
    if inputs:
        return f"{names}: no tenant has a stream of it; 'headrace tenants add NAME' adds one"
    return (
        f"{names}: no sink writes to a topic of a tenant that is there; the topics that are read "
        "are made with --inputs"
    )


def _tell_resumes(stopped: Sequence[str], config: Path) -> None:
    more = () if config == DEFAULT_CONFIG else ("--config", str(config))
    for name in stopped:
        words = shlex.join(["headrace", "use-cases", "resume", name, *more])
        say(f"streams of {name} stopped for want of a topic; this lets all of them go on: {words}")
