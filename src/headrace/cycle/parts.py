"""Dividing a recorded wave: its slices and fences stay, and only who runs together changes.

Streams of a wave may have to go apart, as one waits, fails or hurts the others. Attempts at the
same slices still have to know each other, so a part is made of nothing but what the wave was.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from dataclasses import replace

from headrace.model.streams import StreamId
from headrace.model.waves import Bin, Wave, planned_id


def parts_of(wave: Wave, labels: dict[StreamId, str]) -> list[Wave]:
    """A recorded wave as several, with the very same slices.

    Their names come from what they are, after that of the wave that was planned: a wave may be
    divided again, by another life too, and as often as it has streams.
    """
    made = []
    for label in sorted(set(labels.values())):
        streams = {stream for stream in labels if labels[stream] == label}
        bins = tuple(_bins_of(wave, streams))
        slices = sorted((*piece.lane, piece.from_offset) for bin_ in bins for piece in bin_.slices)
        name = f"{zlib.crc32(repr(slices).encode()):08x}"
        made.append(_part(wave, name, bins))
    return made


def by_tenant(wave: Wave) -> list[Wave]:
    """A wave of frames as one for each tenant, whose name says which: it names what is written."""
    streams = sorted({piece.lane.stream for piece in wave.slices})
    alone = {stream: tuple(_bins_of(wave, {stream})) for stream in streams}
    return [_part(wave, stream.tenant, bins) for stream, bins in alone.items()]


def _part(wave: Wave, name: str, bins: tuple[Bin, ...]) -> Wave:
    """A part has an id that nobody came through under, and that nobody's turn is at."""
    whole = f"{planned_id(wave.id)}.{name}"
    return replace(wave, id=whole, bins=bins, turn=(), taken=False)


def _bins_of(wave: Wave, streams: Collection[StreamId]) -> Iterator[Bin]:
    """Some streams of a wave, in bins of the same fences: attempts at them shut each other out."""
    for bin_ in wave.bins:
        slices = tuple(piece for piece in bin_.slices if piece.lane.stream in streams)
        if slices:
            seconds = bin_.predicted_s * len(slices) / len(bin_.slices)
            yield replace(bin_, slices=slices, predicted_s=seconds)
