"""A Delta table is made at deploy, or brought up to the schema of a newer version.

Several drivers may do so at once: who is second finds what the first one made. Nothing is taken
away and no kind is changed (`kinds.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from headrace.connectors.delta.client import TableClient
from headrace.connectors.delta.library import BeatenError, library, told
from headrace.errors import CodeNotLoaded, ConfigError, SinkUnavailable, TargetMissing

#: each commit is a file; nobody but who reads old versions needs those before a checkpoint
_MADE_WITH = {"delta.logRetentionDuration": "interval 1 days"}
_TRIES = 5


def make(root: Path, schema: pa.Schema, partition_by: Sequence[str], where: str) -> None:
    """Make the table, or bring the one there to a schema, which may add columns.

    Raises:
        ConfigError: the one there differs, or may not be made or changed, or the client library
            is not installed.
        SinkUnavailable: the disk is full or fails, or others change the table all the time.
    """
    for _ in range(_TRIES):
        try:
            return _make_once(root, schema, partition_by, where)
        except BeatenError:
            continue
        except (TargetMissing, CodeNotLoaded) as error:
            raise ConfigError(str(error)) from error
    raise SinkUnavailable(f"{where}: others change the table all the time")


def _make_once(root: Path, schema: pa.Schema, partition_by: Sequence[str], where: str) -> None:
    with told(where):
        root.mkdir(parents=True, exist_ok=True)
        if not library().DeltaTable.is_deltatable(str(root)):
            _create(root, schema, partition_by)
    table = TableClient(root, where)
    lacking = table.lacking(schema, partition_by)
    if lacking:
        table.add(schema, lacking)


def _create(root: Path, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    lib = library()
    try:
        lib.DeltaTable.create(
            str(root), schema, partition_by=list(partition_by), configuration=_MADE_WITH
        )
    except lib.exceptions.DeltaError:
        # Another driver was first.
        if not lib.DeltaTable.is_deltatable(str(root)):
            raise
