"""`headrace streams`: one tenant's topic as read by one use case."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from headrace.assembly import connections_of
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    out,
    settings_and_folder,
    store_of,
)
from headrace.cycle.lags import StreamLag, lags, seek_target
from headrace.errors import ConfigError
from headrace.kafka import KafkaLog
from headrace.model.streams import State, StreamId
from headrace.ports import Log

app = typer.Typer(
    no_args_is_help=True, help="One tenant's topic in one use case: lag, seek, suspend, errors."
)

Tenant = Annotated[str, typer.Argument(help="The tenant.", show_default=False)]
UseCaseName = Annotated[str, typer.Argument(help="The use case.", show_default=False)]


def _log_of(config: Path) -> Log:
    settings, folder = settings_and_folder(config)
    return KafkaLog(connections_of(settings, folder).kafka)


@app.command("list")
def list_(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Show every stream with its state, position and lag."""
    with store_of(config) as store:
        log = _log_of(config)
        try:
            rows = lags(store, log)
        finally:
            log.close()
        table = Table("tenant", "use case", "topic", "state", "lag", "positions", "note", box=None)
        for each in rows:
            table.add_row(*_row(each))
        out.print(table)


def _row(each: StreamLag) -> tuple[str, ...]:
    positions = ", ".join(f"{number}:{offset}" for number, offset in sorted(each.positions.items()))
    lag = "-" if each.lag_records is None else str(each.lag_records)
    stream = each.stream
    return (
        stream.id.tenant,
        stream.id.use_case,
        stream.topic,
        each.state.value,
        lag,
        positions or "none yet",
        stream.reason or "",
    )


@app.command()
def add(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Add one stream, for a use case that is not for all tenants."""
    with store_of(config) as store:
        store.add_stream(StreamId(use_case, tenant))
        out.print(f"stream {tenant}/{use_case} added")


@app.command()
def suspend(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Stop planning one stream; its positions are kept."""
    _set_state(config, StreamId(use_case, tenant), State.SUSPENDED)


@app.command()
def resume(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Go on with a suspended stream where it stopped."""
    _set_state(config, StreamId(use_case, tenant), State.ACTIVE)


@app.command()
def remove(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Remove one stream."""
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
    """Set where a stream reads next, also while it runs."""
    with store_of(config) as store:
        stream = StreamId(use_case, tenant)
        log = _log_of(config)
        try:
            offsets = seek_target(store, log, stream, to)
        finally:
            log.close()
        if not offsets:
            raise ConfigError(f"stream {stream} has no partition to seek; is its topic there?")
        store.seek(stream, offsets)
        shown = ", ".join(f"{number}:{offset}" for number, offset in sorted(offsets.items()))
        out.print(f"stream {stream} reads next at {shown}")


@app.command()
def errors(
    tenant: Annotated[str | None, typer.Argument(help="Only this tenant.")] = None,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show what failed: the error, the offset, and the record with its bytes."""
    with store_of(config) as store:
        for each in store.failures():
            piece = each.slice
            if tenant is not None and piece.lane.tenant != tenant:
                continue
            when = datetime.fromtimestamp(each.at_s).astimezone().isoformat(timespec="seconds")
            out.rule(f"{each.id}  {piece.lane.stream}  {piece}  {when}", align="left")
            error = each.error
            out.print(f"{error.code}: {error.message}", markup=False, highlight=False)
            if error.offset is not None:
                out.print(f"offset {error.offset}", highlight=False)
                out.print(f"key    {error.raw_key!r}", markup=False, highlight=False)
                out.print(f"value  {error.raw_value!r}", markup=False, highlight=False)
            out.print(error.traceback, markup=False, highlight=False, style="dim")


def _set_state(config: Path, stream: StreamId, state: State) -> None:
    with store_of(config) as store:
        store.set_stream_state(stream, state)
        out.print(f"stream {stream} is {state.value}")
