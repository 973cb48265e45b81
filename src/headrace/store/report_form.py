"""A report as bytes, and back.

A report of a thousand streams is written every other second, so it is one row: JSON, made by
orjson, compressed (a tenth is left). In front stands a byte with the number of the form, so that a
reader of another version passes it over instead of misreading it.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from dataclasses import fields, replace
from typing import Any

import orjson

from headrace.model.lane_names import named
from headrace.model.places import NARROW, read_place, text_of
from headrace.model.statistics import (
    BinFigures,
    LagIs,
    LaneFigures,
    Outcome,
    Report,
    Spread,
    StreamFigures,
    UseCaseFigures,
    WaveFigures,
    WriterFigures,
)
from headrace.model.streams import StreamId

#: raise it when the version before can no longer read what is written here
_FORM = b"\x07"
#: forms that are read: the one before does not say what is wrong with a topic, nor where state was
#: found, earlier ones do not count what was passed over, before that they do not say how a lag is
#: known, number lanes within their topic, and even earlier ones have no time of the next try, and
#: no schemas of writers
_READ = (b"\x01", b"\x02", b"\x03", b"\x04", b"\x05", b"\x06", _FORM)
#: the quickest; the best takes four times as long for a fifth less
_LEVEL = 1
_PLAIN = tuple(field.name for field in fields(Report) if field.name not in ("streams", "waves"))


class Packer:
    """Makes bytes of the reports of one driver.

    Of a thousand streams most are told as they were told before, as the very same values. Their
    text is kept from one report to the next.
    """

    def __init__(self) -> None:
        #: by name of a stream or wave: what was told of it, and its text
        self._told: dict[Hashable, tuple[object, orjson.Fragment]] = {}

    def packed(self, report: Report) -> bytes:
        """The bytes of a report."""
        kept: dict[Hashable, tuple[object, orjson.Fragment]] = {}
        streams = [self._text(stream.stream, stream, kept) for stream in report.streams]
        waves = [self._text(wave.wave, wave, kept) for wave in report.waves]
        self._told = kept
        told = {name: getattr(report, name) for name in _PLAIN}
        text = orjson.dumps({**told, "streams": streams, "waves": waves})
        return _FORM + zlib.compress(text, _LEVEL)

    def _text(
        self,
        name: Hashable,
        figures: StreamFigures | WaveFigures,
        kept: dict[Hashable, tuple[object, orjson.Fragment]],
    ) -> orjson.Fragment:
        before = self._told.get(name)
        if before is None or before[0] is not figures:
            before = (figures, orjson.Fragment(_json(figures)))
        kept[name] = before
        return before[1]


def _json(figures: StreamFigures | WaveFigures) -> bytes:
    try:
        return orjson.dumps(figures, default=_name)
    except TypeError:
        # A message that quotes a broken record may hold half a character, which JSON cannot; and a
        # place may have more digits than this writes as a number.
        if isinstance(figures, StreamFigures):
            told = {field.name: getattr(figures, field.name) for field in fields(figures)}
            told |= {"note": _whole(figures.note), "lanes": [*map(_wide, figures.lanes)]}
            return orjson.dumps(told, default=_name)
        return orjson.dumps(replace(figures, error=_whole(figures.error)))


def _wide(lane: LaneFigures) -> dict[str, Any]:
    """A lane whose places are text where they are wide."""
    told = {field.name: getattr(lane, field.name) for field in fields(lane)}
    wide = {name: told[name] for name in ("position", "end") if told[name] > NARROW}
    return told | {name: text_of(place) for name, place in wide.items()}


def unpacked(data: bytes) -> Report | None:
    """The report of such bytes; None if this version cannot read them."""
    if data[:1] not in _READ:
        return None
    try:
        return _report(orjson.loads(zlib.decompress(data[1:])))
    except (zlib.error, ValueError, TypeError, KeyError, AttributeError):
        return None


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
            "streams": tuple(_stream(stream) for stream in told["streams"]),
            "use_cases": tuple(_use_case(use_case) for use_case in told["use_cases"]),
            "waves": tuple(_wave(wave) for wave in told["waves"]),
        }
    )


def _stream(told: dict[str, Any]) -> StreamFigures:
    told["stream"] = StreamId(*told["stream"])
    told["delay"] = Spread(**told["delay"])
    told["lanes"] = tuple(_lane(told["topic"], lane) for lane in told["lanes"])
    told["writers"] = tuple(WriterFigures(**writer) for writer in told.get("writers", ()))
    told["lag_is"] = LagIs(told.get("lag_is", LagIs.EXACT))
    return StreamFigures(**told)


def _lane(topic: str, told: dict[str, Any]) -> LaneFigures:
    if "partition" in told:
        told["name"] = named(topic, told.pop("partition"))
    told["lag_is"] = LagIs(told.get("lag_is", LagIs.EXACT))
    wide = {name: told[name] for name in ("position", "end") if isinstance(told[name], str)}
    return LaneFigures(**told | {name: read_place(text) for name, text in wide.items()})


def _use_case(told: dict[str, Any]) -> UseCaseFigures:
    spreads = {name: Spread(**told[name]) for name in ("processing", "scheduling", "delay")}
    return UseCaseFigures(**{**told, **spreads})


def _wave(told: dict[str, Any]) -> WaveFigures:
    return WaveFigures(**{**told, "bins": tuple(_bin(bin_) for bin_ in told["bins"])})


def _bin(told: dict[str, Any]) -> BinFigures:
    known = {"tenants": tuple(told["tenants"]), "outcome": Outcome(told["outcome"])}
    return BinFigures(**{**told, **known})
