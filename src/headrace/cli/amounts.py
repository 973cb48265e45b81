"""What people type for sizes, durations and streams.

An amount that is understood in the YAML file but not on the command line, or the other way round,
would be one thing more to remember; so both are read by the same functions. A stream is typed as
tables and errors show it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

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


#: how a stream is typed, and shown, everywhere
StreamName = Annotated[
    str,
    typer.Argument(
        metavar="TENANT/USE-CASE", help="The stream, such as acme/score.", show_default=False
    ),
]
#: of who types the two as words of their own
UseCaseApart = Annotated[str | None, typer.Argument(hidden=True)]


def stream_of(text: str, use_case: str | None = None) -> StreamId:
    """A stream from ``tenant/use-case``, or from the two apart.

    Raises:
        ConfigError: it is not written so.
    """
    whole = text if use_case is None else f"{text}/{use_case}"
    tenant, slash, name = whole.partition("/")
    if not (tenant and slash and name) or "/" in name:
        raise ConfigError(
            f"{whole!r} is no stream; write TENANT/USE-CASE, such as acme/score; "
            "'headrace streams list' shows them"
        )
    return StreamId(name, tenant)


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
