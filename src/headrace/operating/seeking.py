"""Setting where a stream reads next, also while it runs.

A seek to where the log is not would stop the stream, or lose what it meant to read again; so
offsets are looked at before the store is told. Lanes that a failure stopped go on.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.cycle.lags import seek_offsets, seek_target
from headrace.errors import ConfigError
from headrace.model.streams import StreamId
from headrace.ports import Log, Store


def seek(store: Store, log: Log, stream: StreamId, to: str | Mapping[int, int]) -> dict[int, int]:
    """Let a stream read next at ``to``; return the offsets by partition.

    Args:
        store: knows the stream, and is told.
        log: knows the offsets.
        stream: the one to seek.
        to: what a person typed (see ``seek_target``), or offsets by partition.

    Raises:
        UnknownName: there is no such stream.
        ConfigError: ``to`` cannot be understood, the log does not hold it, or the stream was
            removed.
    """
    if isinstance(to, str):
        offsets = seek_target(store, log, stream, to)
    else:
        offsets = seek_offsets(store, log, stream, to)
    if not offsets:
        raise ConfigError(f"stream {stream} has no partition to seek; is its topic there?")
    store.seek(stream, offsets)
    return offsets
