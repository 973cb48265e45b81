"""A report as bytes, and back.

A report of a thousand streams is written every other second, so it is one row: JSON, made by
orjson, compressed (a tenth is left). In front stands a byte with the number of the form, so that a
reader of another version passes it over instead of misreading it.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from typing import Any

import orjson

from headrace.model.statistics import (
    BinFigures,
    LaneFigures,
    Outcome,
    Report,
    Spread,
    StreamFigures,
    UseCaseFigures,
    WaveFigures,
)
from headrace.model.streams import StreamId

#: raise it when the version before can no longer read what is written here
_FORM = b"\x01"
#: the quickest; the best takes four times as long for a fifth less
_LEVEL = 1


def packed(report: Report) -> bytes:
    """The bytes of a report."""
    try:
        told = orjson.dumps(report, default=_name)
    except TypeError:
        # A message that quotes a broken record may hold half a character, which JSON cannot.
        told = orjson.dumps(_mended(report), default=_name)
    return _FORM + zlib.compress(told, _LEVEL)


def unpacked(data: bytes) -> Report | None:
    """The report of such bytes; None if this version cannot read them."""
    if data[:1] != _FORM:
        return None
    try:
        return _report(orjson.loads(zlib.decompress(data[1:])))
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError):
        return None


def _mended(report: Report) -> Report:
    streams = tuple(replace(each, note=_whole(each.note)) for each in report.streams)
    waves = tuple(replace(each, error=_whole(each.error)) for each in report.waves)
    return replace(report, streams=streams, waves=waves)


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _name(value: object) -> list[str]:
    # orjson knows dataclasses and enums; a named tuple it leaves to us.
    if isinstance(value, StreamId):
        return [*value]
    raise TypeError(f"a {type(value).__name__} in a report")


def _report(told: dict[str, Any]) -> Report:
    return Report(
        **{
            **told,
            "streams": tuple(_stream(each) for each in told["streams"]),
            "use_cases": tuple(_use_case(each) for each in told["use_cases"]),
            "waves": tuple(_wave(each) for each in told["waves"]),
        }
    )


def _stream(told: dict[str, Any]) -> StreamFigures:
    told["stream"] = StreamId(*told["stream"])
    told["delay"] = Spread(**told["delay"])
    told["lanes"] = tuple(LaneFigures(**each) for each in told["lanes"])
    return StreamFigures(**told)


def _use_case(told: dict[str, Any]) -> UseCaseFigures:
    spreads = {name: Spread(**told[name]) for name in ("processing", "scheduling", "delay")}
    return UseCaseFigures(**{**told, **spreads})


def _wave(told: dict[str, Any]) -> WaveFigures:
    return WaveFigures(**{**told, "bins": tuple(_bin(each) for each in told["bins"])})


def _bin(told: dict[str, Any]) -> BinFigures:
    known = {"tenants": tuple(told["tenants"]), "outcome": Outcome(told["outcome"])}
    return BinFigures(**{**told, **known})
