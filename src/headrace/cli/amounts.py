"""What people type for sizes, durations and streams.

An amount that is understood in the YAML file but not on the command line, or the other way round,
would be one thing more to remember; so both are read by the same functions. A stream is typed as
tables and errors show it.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from headrace.errors import ConfigError
from headrace.model.streams import StreamId
from headrace.settings.fields import bytes_of, seconds_of


def size(text: str) -> float:
    """Bytes, above 0, from ``64m``."""
    return _above_zero(bytes_of, text)


def duration(text: str) -> float:
    """Seconds, above 0, from ``250ms``."""
    return _above_zero(seconds_of, text)


def stream_of(text: str) -> StreamId:
    """A stream from ``tenant/use-case``.

    Raises:
        ConfigError: it is not written so.
    """
    tenant, slash, use_case = text.partition("/")
    if not (tenant and slash and use_case) or "/" in use_case:
        raise ConfigError(f"{text!r} is no stream; write TENANT/USE-CASE, such as acme/score")
    return StreamId(use_case, tenant)


def counted(amount: int, noun: str) -> str:
    """``1 stream``, ``2 streams``; for nouns that take an s."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def _above_zero(read: Callable[[object], float], text: str) -> float:
    try:
        amount = read(text)
    except ValueError as exc:
        raise typer.BadParameter(str(exc)) from exc
    if amount <= 0:
        raise typer.BadParameter(f"{text} is not above 0")
    return float(amount)
