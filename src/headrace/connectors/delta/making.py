"""A Delta table is made at deploy, or brought up to the schema of a newer version.

Several drivers may do so at once: who is second finds what the first one made. Nothing is taken
away and no kind is changed (`kinds.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.connectors.delta.client import TableClient
from headrace.connectors.delta.homes import Home
from headrace.connectors.delta.library import BeatenError, library
from headrace.errors import CodeNotLoaded, ConfigError, SinkRefused, SinkUnavailable, TargetMissing

#: each commit is a file; nobody but who reads old versions needs those before a checkpoint
_MADE_WITH = {"delta.logRetentionDuration": "interval 1 days"}
_TRIES = 5


def make(home: Home, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    """Make the table, or bring the one there to a schema, which may add columns.

    Raises:
        ConfigError: the one there differs, or may not be made or changed, or the client library
            is not installed, or a table is not safe there.
        SinkUnavailable: it cannot be written to now, or others change the table all the time.
    """
    for _ in range(_TRIES):
        try:
            return _make_once(home, schema, partition_by)
        except BeatenError:
            continue
        except (TargetMissing, SinkRefused, CodeNotLoaded) as error:
            raise ConfigError(str(error)) from error
    raise SinkUnavailable(f"{home.where}: others change the table all the time")


def _make_once(home: Home, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    home.make_ready()
    with home.told():
        if not _is_there(home):
            _create(home, schema, partition_by)
    table = TableClient(home)
    lacking = table.lacking(schema, partition_by)
    if lacking:
        table.add(schema, lacking)


def _is_there(home: Home) -> bool:
    # Not by is_deltatable(), which lets no other thread run while it waits for an answer.
    lib = library()
    try:
        lib.DeltaTable(home.uri, storage_options=home.options)
    except lib.exceptions.TableNotFoundError:
        return False
    return True


def _create(home: Home, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    lib = library()
    try:
        lib.DeltaTable.create(
            home.uri,
            schema,
            partition_by=list(partition_by),
            configuration=_MADE_WITH,
            storage_options=home.options,
        )
    except lib.exceptions.DeltaError:
        # Another driver was first.
        if not _is_there(home):
            raise
