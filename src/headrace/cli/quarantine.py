"""`headrace quarantine`: what could not be handled, and what to do about it.

The record is shown with its bytes, and each way to go on is one command: to retry it, to skip it,
or to send back what was set aside. What each does, and when it is refused, is in
`operating/quarantine.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.amounts import stream_of
from headrace.cli.asking import YesOption, confirm
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    err,
    out,
    print_list,
    say,
    settings_and_folder,
    store_of,
)
from headrace.cli.failure_text import in_one_line, paragraphs, when
from headrace.connectors.kafka.dead_letters import KafkaDeadLettersFactory
from headrace.connectors.kafka.redrive import redrive as send_back
from headrace.console.rows import failure_row
from headrace.deploying.offer import connections_of, with_seal_key
from headrace.errors import ConfigError, no_stream
from headrace.model.lane_names import said
from headrace.model.records import Failure, FailureState
from headrace.model.streams import Stream, StreamId
from headrace.model.topic_lists import topics_read
from headrace.operating.again import of_letters
from headrace.operating.quarantine import (
    check_skip,
    consequence,
    generation_of,
    live_stream,
    needs_whole_slice,
    offsets,
    suspended,
)
from headrace.operating.quarantine import retry as go_on
from headrace.operating.quarantine import skip as go_on_behind
from headrace.ports import Connections, DeadLetters, Failures, Registry, Store

app = typer.Typer(
    no_args_is_help=True,
    help="Records that could not be handled: look at them, retry, skip, send back.",
)

Numbers = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID...", help="As `list` shows them.", show_default=False),
]
OfStream = Annotated[
    str | None,
    typer.Option("--stream", metavar="TENANT/USE-CASE", help="Those of one stream."),
]


@app.command("list")
def list_(
    stream: OfStream = None,
    every: Annotated[
        bool,
        typer.Option("--all", help="Also those that are over, and what was passed over unread."),
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show the failures that stop a lane, oldest first.

    `attempts` are the tries that it had before it stopped its lane, `stops` how often it did so: of
    one that was retried and failed again more than once.

    Example: `headrace quarantine list --stream acme/score`
    """
    with store_of(config) as store:
        wanted = None if stream is None else _known_stream(store.registry, stream)
        found = store.failures.every(wanted, only_open=not every, with_records=False)
        if not (found or as_json):
            out.print("no lane is stopped by a failure" if not every else "nothing ever failed")
            return
        generations = {tenant.name: tenant.generation for tenant in store.registry.tenants()}
        table = _table(found, generations if every else None)
        values = [
            {"stream": str(lane.stream), **failure_row(failure, generations[lane.tenant])}
            for failure in found
            if (lane := failure.slice.lane)
        ]
        print_list(table, values, as_json=as_json)


def _table(found: Sequence[Failure], generations: Mapping[str, int] | None) -> Table:
    """Failures; with their states where the generations of tenants are given."""
    table = Table(box=None)
    state = () if generations is None else ("state",)
    for name in ("id", *state, "stream", "partition", "offset", "attempts", "stops", "when"):
        table.add_column(name, no_wrap=True)
    table.add_column("error")
    for failure in found:
        lane = failure.slice.lane
        table.add_row(
            str(failure.id),
            *(() if generations is None else (_state(failure, generations[lane.tenant]),)),
            str(lane.stream),
            said(lane.name, failure.slice.topic),
            offsets(failure),
            "-" if failure.unread else str(failure.attempts),
            str(failure.times),
            when(failure.at_s),
            Text(in_one_line(failure.error), no_wrap=True, overflow="ellipsis"),
        )
    return table


def _state(failure: Failure, generation: int) -> str:
    earlier = failure.slice.epoch < generation
    return f"{failure.became}, earlier tenant" if earlier else failure.became


@app.command()
def show(
    number: Annotated[int, typer.Argument(metavar="ID", help="As `list` shows it.")],
    full: Annotated[bool, typer.Option("--full", help="Key, value and headers whole.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show everything about one failure: offsets, error, traceback, and the record.

    Key, value and headers are shown as text if they are UTF-8, else as hex.

    Example: `headrace quarantine show 7 --full`
    """
    with store_of(config) as store:
        failure = store.failures.one(number)
        if failure.slice.epoch < generation_of(store.registry, failure.slice.lane.tenant):
            say(f"{'tenant':<10} an earlier one of this name, which was removed")
        for heading, text in paragraphs(failure, full=full):
            first, *more = text.split("\n")
            say(f"{heading:<10} {first}")
            for line in more:
                say(f"{'':<10} {line}")
        if failure.state is FailureState.OPEN:
            say(f"\nheadrace quarantine retry {number}    once the cause is mended")
            say(_way_past(store, failure))


def _way_past(store: Store, failure: Failure) -> str:
    """The command that goes on without what failed, or why there is none."""
    try:
        check_skip(store, failure, whole_slice=True)
    except ConfigError as error:
        return str(error)
    command = f"headrace quarantine skip {failure.id}"
    if needs_whole_slice(failure):
        return f"{command} --whole-slice     to go on without all of it, which is kept nowhere"
    return f"{command}     to go on without it"


@app.command()
def retry(
    numbers: Numbers = None,
    stream: OfStream = None,
    every: Annotated[bool, typer.Option("--all", help="All that stop a lane.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Let lanes try the record that failed again, once its cause is mended.

    A record that fails again stops its lane again, as the same failure.

    Example: `headrace quarantine retry 7 8`, or `headrace quarantine retry --stream acme/score`
    """
    with store_of(config) as store:
        chosen = _chosen(store, numbers or [], stream, every=every)
        _each(chosen, lambda failure: _retry_one(store.failures, failure))
        _tell_suspended(store.registry, chosen)


def _retry_one(failures: Failures, failure: Failure) -> None:
    go_on(failures, failure)
    lane, _, at, _ = failure.place
    say(f"failure {failure.id}: {lane} tries offset {at} again; if that fails, it stops again")


@app.command()
def skip(
    numbers: Annotated[list[int], typer.Argument(metavar="ID...", help="As `list` shows them.")],
    whole_slice: Annotated[
        bool,
        typer.Option("--whole-slice", help="Also a slice in which no single record is to blame."),
    ] = False,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Let lanes go on behind the record that failed, which is kept in the dead letters first.

    The record is then in the topic `<topic>.dlq`, and `headrace quarantine redrive` sends it back.
    A slice in which no record is named is kept nowhere: it needs `--whole-slice`.

    Example: `headrace quarantine skip 7 --yes`
    """
    with store_of(config) as store:
        chosen = _chosen(store, numbers, None, every=False)
        for failure in chosen:
            check_skip(store, failure, whole_slice=whole_slice)
            say(consequence(failure))
        if not yes:
            words = ["--whole-slice"] if whole_slice else []
            confirm(config, "quarantine", "skip", *map(str, numbers), *words)
        with closing(_dead_letters(config)) as letters:
            _each(chosen, lambda failure: _skip_one(store.failures, letters, failure))
        _tell_suspended(store.registry, chosen)


def _skip_one(failures: Failures, letters: DeadLetters, failure: Failure) -> None:
    go_on_behind(failures, letters, failure)
    named = failure.error.offset
    where = f"at offset {failure.skipped_to}" if named is None else f"behind offset {named}"
    say(f"failure {failure.id}: {failure.slice.lane} goes on {where}")


@app.command()
def redrive(
    stream: Annotated[str, typer.Argument(metavar="TENANT/USE-CASE", help="Whose dead letters.")],
    limit: Annotated[int | None, typer.Option(min=1, help="The most to send; none: all.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count, send nothing.")] = False,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Send dead letters back to the end of their partitions, each once, for this use case only.

    Says first how many there are, and asks: what was handled meanwhile, as after a seek, has its
    effects again. A record that was sent back too often and failed each time is refused; it stays
    where it is.

    Example: `headrace quarantine redrive acme/score --limit 100 --dry-run`
    """
    with store_of(config) as store:
        found = live_stream(store.registry, stream_of(stream))
        connections = with_seal_key(_connections(config), store)
        generation = generation_of(store.registry, found.id.tenant)
        send = partial(send_back, connections, found.id, _topics(found), generation=generation)
        if not (yes or dry_run):
            limit = _agreed(send(limit=limit, dry_run=True).sent, limit, found.id, config)
        done = send(limit=limit, dry_run=dry_run)
        if dry_run and done.sent:
            say(of_letters(done.sent, found.id))
        for why in done.refused:
            say(f"refused: {why}", err)
        how = "to send" if dry_run else "sent"
        say(
            f"dead letters {how} back to {_topics(found)}: {done.sent}, refused: "
            f"{len(done.refused)}, left for the next time: {done.left}"
        )


def _topics(of: Stream) -> str:
    return ",".join(topics_read(of.topic, of.topic_id))


def _agreed(letters: int, limit: int | None, stream: StreamId, config: Path) -> int | None:
    """The most to send once somebody has agreed: what was told, though more may come meanwhile."""
    if not letters:
        return limit
    say(of_letters(letters, stream))
    words = [] if limit is None else ["--limit", str(limit)]
    confirm(config, "quarantine", "redrive", str(stream), *words)
    return letters


def _connections(config: Path) -> Connections:
    settings, folder = settings_and_folder(config)
    return connections_of(settings, folder)


def _dead_letters(config: Path) -> DeadLetters:
    return KafkaDeadLettersFactory().open(_connections(config))


def _known_stream(registry: Registry, text: str) -> StreamId:
    """The stream that is typed: of a slip there would be no failure, as of one that works."""
    wanted = stream_of(text)
    if wanted not in {stream.id for stream in registry.streams()}:
        raise no_stream(text)
    return wanted


def _chosen(
    store: Store, numbers: Sequence[int], stream: str | None, *, every: bool
) -> list[Failure]:
    """The failures a person means; all of them are looked up before anything is done."""
    if sum((bool(numbers), stream is not None, every)) != 1:
        raise ConfigError("name failures by their ids, or by --stream, or all of them by --all")
    if numbers:
        return [store.failures.one(number) for number in dict.fromkeys(numbers)]
    wanted = None if stream is None else _known_stream(store.registry, stream)
    return store.failures.every(wanted, only_open=True)


def _each(chosen: Sequence[Failure], do: Callable[[Failure], None]) -> None:
    """Do it for each, also when one is refused; then fail as that one did."""
    refused: list[ConfigError] = []
    for failure in chosen:
        try:
            do(failure)
        except ConfigError as error:
            refused.append(error)
    if not chosen:
        say("no lane is stopped by a failure")
    if refused:
        raise ConfigError("\n".join(str(error) for error in refused))


def _tell_suspended(registry: Registry, chosen: Sequence[Failure]) -> None:
    for stream in suspended(registry, chosen):
        why = f" ({stream.reason})" if stream.reason else ""
        say(
            f"stream {stream.id} is suspended all the same{why}: "
            f"headrace streams resume {stream.id}"
        )
