"""`headrace verify`: do the store and the logs agree?"""

from __future__ import annotations

import typer

from headrace.cli.amounts import counted
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    err,
    out,
    settings_and_folder,
    store_of,
)
from headrace.connectors.by_topic import open_log
from headrace.cycle.lags import lags
from headrace.deploying.offer import connections_of


def verify(config: ConfigOption = DEFAULT_CONFIG) -> None:
    """Check every position against Kafka: topic, topic id, first and last offset.

    Exits with 1 and names stream, partition and offsets if a position does not fit its topic. What
    to do then: `headrace streams seek`, and `headrace streams resume` if the stream is suspended.
    """
    with store_of(config) as store:
        settings, folder = settings_and_folder(config)
        log = open_log(connections_of(settings, folder), asks_once=True)
        try:
            rows = lags(store, log)
        finally:
            log.close()
        faults = [(row.stream.id, fault) for row in rows for fault in row.faults()]
        for stream, fault in faults:
            err.print(f"{stream}: {fault}", markup=False, highlight=False)
        lanes = sum(len(row.positions) for row in rows)
        pending = len(store.progress.pending_intents())
        out.print(
            f"{counted(len(rows), 'stream')}, {counted(lanes, 'lane')}, "
            f"{counted(pending, 'recorded wave')} to run again, {counted(len(faults), 'fault')}",
            highlight=False,
        )
        if faults:
            raise typer.Exit(1)
