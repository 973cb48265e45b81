"""`headrace rerun`: what was done once is done again, beside what is fresh.

An operator wants to know first how much it would be, then to begin it, and then to forget it. So
this counts by partition, begins, and says how to watch it and how to end it. What a rerun is, and
what ends it by itself, is told in `cycle/reruns.py`.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.amounts import stream_of
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    out,
    settings_and_folder,
    store_of,
)
from headrace.connectors.kafka import KafkaLog
from headrace.cycle.reruns import Range, begin, range_of
from headrace.deploying.offer import connections_of
from headrace.errors import ConfigError
from headrace.model.streams import RERUN_MARK, State, StreamId
from headrace.ports import Log, Store

_PLACE = "earliest, a time such as 2026-05-17T10:05:00+00:00, an offset, or Spark's JSON form."


def rerun(
    what: Annotated[
        str, typer.Argument(metavar="TENANT[/USE-CASE]", help="One stream, or all of a tenant.")
    ],
    first: Annotated[str, typer.Option("--from", help=_PLACE)],
    until: Annotated[
        str | None,
        typer.Option(help="Where to end, as in --from; none, and the most: where it stands."),
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            help="Its part of the task time, where that is short for it and the live one."
        ),
    ] = 0.2,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count, begin nothing.")] = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Read a range of a stream once more, while fresh records go on as ever.

    Effects are made again: what adds or appends does so twice, and only what is keyed by record,
    such as an upsert by partition and offset, is as before. It is a stream of its own, which
    `headrace streams list` shows as removed once it is over.

    Example: `headrace rerun acme/pages --from 2026-05-17T10:05:00+00:00 --dry-run`
    """
    with store_of(config) as store, closing(_log_of(config)) as log:
        if not 0 < share < 1:
            raise ConfigError(f"a share of {share:g} cannot be; it is above 0 and below 1")
        ranges = [range_of(store, log, each, first, until) for each in _chosen(store, what)]
        for each in ranges:
            _tell(each)
            if not dry_run:
                made = begin(store, each, share)
                out.print(
                    f"begun as {made}; 'headrace streams list' shows it, and "
                    f"'headrace streams remove {made.tenant} {made.use_case}' ends it",
                    highlight=False,
                    soft_wrap=True,
                )


def _log_of(config: Path) -> Log:
    settings, folder = settings_and_folder(config)
    return KafkaLog(connections_of(settings, folder).kafka)


def _chosen(store: Store, what: str) -> list[StreamId]:
    if "/" in what:
        return [stream_of(what)]
    found = [
        each.id
        for each in store.streams()
        if each.id.tenant == what
        and each.state is not State.REMOVED
        and RERUN_MARK not in each.id.use_case
    ]
    if not found:
        raise ConfigError(f"tenant {what} has no stream; 'headrace streams list' shows them all")
    return found


def _tell(wanted: Range) -> None:
    for number, (start, end) in wanted.lanes.items():
        out.print(
            f"{wanted.stream} partition {number}: offsets {start} to {end - 1}, "
            f"at most {end - start} records",
            highlight=False,
        )
    out.print(f"{wanted.stream}: at most {wanted.offsets} records", highlight=False)
