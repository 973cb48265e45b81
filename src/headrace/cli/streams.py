"""`headrace streams`: one tenant's topic as read by one use case."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.asking import YesOption, agree_to, ask_again, log_of, show
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    out,
    print_json,
    print_table,
    store_of,
)
from headrace.cli.failure_text import printable, when
from headrace.cycle.lags import StreamLag, lags
from headrace.model.records import Failure
from headrace.model.streams import State, StreamId
from headrace.operating.seeking import carry_out, planned
from headrace.ports import Log, Store
from headrace.telemetry.conditions import Condition, condition
from headrace.telemetry.newest_reports import newest

app = typer.Typer(
    no_args_is_help=True, help="One tenant's topic in one use case: lag, seek, suspend, resume."
)

Tenant = Annotated[str, typer.Argument(help="The tenant.", show_default=False)]
UseCaseName = Annotated[str, typer.Argument(help="The use case.", show_default=False)]


@app.command("list")
def list_(as_json: JsonOption = False, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Show every stream: what it does now and why, its lag and positions.

    Example: `headrace streams list`
    """
    with store_of(config) as store:
        with closing(log_of(config)) as log:
            found = list(_listed(store, log, time.time()))
        if as_json:
            print_json([row.values() for row in found])
            return
        table = Table("tenant", "use case", "topic", "state", "lag", "positions", "note", box=None)
        for row in found:
            table.add_row(*row.row())
        print_table(table)


@dataclass(frozen=True, slots=True)
class _Listed:
    """One stream, as it is shown."""

    of: StreamLag
    how: Condition
    #: when a driver told of it last
    told_at_s: float | None

    def row(self) -> tuple[str | Text, ...]:
        stream, how, offsets = self.of.stream, self.how, sorted(self.of.positions.items())
        lag = "-" if self.of.lag_records is None else str(self.of.lag_records)
        positions = ", ".join(f"{number}:{offset}" for number, offset in offsets)
        note = printable(" ".join(how.reason.split()))
        if how.retry_at_s is not None:
            note = f"next try {when(how.retry_at_s, zone=False)}: {note}"
        named = (stream.id.tenant, stream.id.use_case, Text(printable(stream.topic)))
        return (*named, how.state, lag, positions or "none yet", Text(note))

    def values(self) -> dict[str, Any]:
        stream = self.of.stream
        return {
            "tenant": stream.id.tenant,
            "use_case": stream.id.use_case,
            "topic": stream.topic,
            "state": self.how.state,
            "reason": self.how.reason,
            "retry_at_s": self.how.retry_at_s,
            "holder": stream.holder,
            "told_at_s": self.told_at_s,
            "lag_records": self.of.lag_records,
            "positions": {str(number): at for number, at in sorted(self.of.positions.items())},
        }


def _listed(store: Store, log: Log, now_s: float) -> Iterator[_Listed]:
    told, stopped = newest(store.statistics.reports()), defaultdict[StreamId, list[Failure]](list)
    for failure in store.failures.every(only_open=True, with_records=False):
        stopped[failure.slice.lane.stream].append(failure)
    found = lags(store, log)
    # After the streams: somebody may just now be added.
    tenants = {tenant.name: tenant for tenant in store.registry.tenants()}
    for lag in found:
        name = lag.stream.id
        word = told.get(name)
        how = condition(lag.stream, tenants[name.tenant], word, stopped[name], now_s)
        yield _Listed(lag, how, word and word.at_s)


@app.command()
def add(
    tenant: Tenant,
    use_case: UseCaseName,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Add one stream, for a use case that is not for all tenants.

    One that was removed starts at startingOffsets: it is asked first if that reads records again.

    Example: `headrace streams add acme score`
    """
    with store_of(config) as store:
        stream = StreamId(use_case, tenant)
        ask_again(store, [stream], config, yes, "streams", "add", tenant, use_case)
        store.registry.add_stream(stream)
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
    stream = StreamId(use_case, tenant)
    with store_of(config) as store:
        store.registry.set_stream_state(stream, State.ACTIVE)
        if any(
            known.name == tenant and known.state is State.SUSPENDED
            for known in store.registry.tenants()
        ):
            out.print(
                f"stream {stream} may go on, but its tenant {tenant} is suspended: nothing of it "
                f"runs before 'headrace tenants resume {tenant}'",
                highlight=False,
                soft_wrap=True,
            )
        else:
            out.print(f"stream {stream} is active")


@app.command()
def remove(tenant: Tenant, use_case: UseCaseName, config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Remove one stream. What is in flight may end; its topic and results are left alone.

    Added again, it starts at startingOffsets, and what it had read may be read again. To pause it,
    use suspend.

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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count, move nothing.")] = False,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Set where a stream reads next, also while it runs; lanes that a failure stopped go on.

    Says first how much is read again or passed over, and asks; once more if it is much more when
    it is answered. What is read again has its effects again, under every guarantee.

    Example: `headrace streams seek acme score --to earliest --dry-run`
    """
    with store_of(config) as store:
        stream = StreamId(use_case, tenant)
        with closing(log_of(config)) as log:
            plan = planned(store, log, stream, to)
            show([plan], config)
            if dry_run:
                return
            if not yes:
                words = ("streams", "seek", tenant, use_case, "--to", to)
                agree_to(plan, lambda: planned(store, log, stream, plan.offsets), config, *words)
        carry_out(store.progress, plan)
        shown = ", ".join(f"{number}:{offset}" for number, offset in sorted(plan.offsets.items()))
        out.print(f"stream {stream} reads next at {shown}")


def _set_state(config: Path, stream: StreamId, state: State) -> None:
    with store_of(config) as store:
        store.registry.set_stream_state(stream, state)
        out.print(f"stream {stream} is {state.value}")
