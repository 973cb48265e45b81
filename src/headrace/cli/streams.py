"""`headrace streams`: one tenant's topic as read by one use case."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    out,
    print_table,
    settings_and_folder,
    store_of,
)
from headrace.cycle.lags import StreamLag, lags
from headrace.deploying import connections_of
from headrace.kafka import KafkaLog
from headrace.model.streams import State, StreamId
from headrace.operating.seeking import seek as seek_to
from headrace.ports import Log

app = typer.Typer(
    no_args_is_help=True, help="One tenant's topic in one use case: lag, seek, suspend, resume."
)

Tenant = Annotated[str, typer.Argument(help="The tenant.", show_default=False)]
UseCaseName = Annotated[str, typer.Argument(help="The use case.", show_default=False)]


def _log_of(config: Path) -> Log:
    settings, folder = settings_and_folder(config)
    return KafkaLog(connections_of(settings, folder).kafka)


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Show every stream with its state, position and lag.

    Example: `headrace streams list`
    """
    with store_of(config) as store:
        log = _log_of(config)
        try:
            rows = lags(store, log)
        finally:
            log.close()
        table = Table("tenant", "use case", "topic", "state", "lag", "positions", "note", box=None)
        stops = Counter(each.slice.lane.stream for each in store.failures(only_open=True))
        for each in rows:
            table.add_row(*_row(each, stops[each.stream.id]))
        print_table(table)


def _row(each: StreamLag, stopped_lanes: int) -> tuple[str | Text, ...]:
    positions = ", ".join(f"{number}:{offset}" for number, offset in sorted(each.positions.items()))
    lag = "-" if each.lag_records is None else str(each.lag_records)
    stream = each.stream
    notes = [stream.reason] if stream.reason else []
    if stopped_lanes:
        lanes = "1 lane" if stopped_lanes == 1 else f"{stopped_lanes} lanes"
        notes.append(f"{lanes} stopped, see 'headrace quarantine list'")
    return (
        stream.id.tenant,
        stream.id.use_case,
        stream.topic,
        each.state.value,
        lag,
        positions or "none yet",
        Text("; ".join(notes)),
    )


@app.command()
def add(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Add one stream, for a use case that is not for all tenants.

    Example: `headrace streams add acme score`
    """
    with store_of(config) as store:
        store.add_stream(StreamId(use_case, tenant))
        out.print(f"stream {tenant}/{use_case} added")


@app.command()
def suspend(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Stop planning one stream; its positions are kept.

    Example: `headrace streams suspend acme score`
    """
    _set_state(config, StreamId(use_case, tenant), State.SUSPENDED)


@app.command()
def resume(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Go on with a suspended stream where it stopped; what failed in it is retried.

    Example: `headrace streams resume acme score`
    """
    _set_state(config, StreamId(use_case, tenant), State.ACTIVE)


@app.command()
def remove(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Remove one stream. What is in flight may end; its topic and results are left alone.

    Added again, it has no positions and starts at startingOffsets. To pause it, use suspend.

    Example: `headrace streams remove acme score`
    """
    _set_state(config, StreamId(use_case, tenant), State.REMOVED)


@app.command()
def seek(
    tenant: Tenant,
    use_case: UseCaseName,
    to: Annotated[
        str,
        typer.Option(
            help="earliest, latest, a time such as 2026-05-17T10:05:00+00:00, one offset for all "
            'partitions, or Spark\'s form \'{"acme.visits":{"0":23}}\'.'
        ),
    ],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Set where a stream reads next, also while it runs; lanes that a failure stopped go on.

    Example: `headrace streams seek acme score --to earliest`
    """
    with store_of(config) as store:
        stream = StreamId(use_case, tenant)
        log = _log_of(config)
        try:
            offsets = seek_to(store, log, stream, to)
        finally:
            log.close()
        shown = ", ".join(f"{number}:{offset}" for number, offset in sorted(offsets.items()))
        out.print(f"stream {stream} reads next at {shown}")


def _set_state(config: Path, stream: StreamId, state: State) -> None:
    with store_of(config) as store:
        store.set_stream_state(stream, state)
        out.print(f"stream {stream} is {state.value}")
