"""`headrace rerun`: what was done once is done again, beside what is fresh.

An operator wants to know first how much it would be and what comes of it, then to begin it, and
then to forget it. So this counts by partition, asks, begins, and says how to watch and to end it.
What a rerun is, and what ends it by itself, is told in `cycle/reruns.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.amounts import stream_of
from headrace.cli.asking import YesOption, agree, deployed, log_of, show_consequences
from headrace.cli.console import DEFAULT_CONFIG, ConfigOption, out, store_of
from headrace.cycle.reruns import RerunRange, begin, range_of
from headrace.errors import ConfigError, no_tenant
from headrace.model.lane_names import alike, are_of_several, together
from headrace.model.streams import RERUN_MARK, State, StreamId
from headrace.operating.seeking import Seek, Shift
from headrace.ports import Store

_PLACE = "earliest, a time such as 2026-05-17T10:05:00+00:00, an offset, or Spark's JSON form."
_SHARE = 0.2


def rerun(  # noqa: PLR0913, PLR0917 - options of a command
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
    ] = _SHARE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count, begin nothing.")] = False,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Read a range of a stream once more, while fresh records go on as ever.

    Says first how much it is and what comes of it for this sink, and asks; once more if its lanes
    are others when it is answered.

    Effects are made again: what adds or appends does so twice, and only what is keyed by record,
    such as an upsert by partition and offset, is as before. It is a stream of its own, which
    `headrace streams list` shows until it is over, and with `--all` afterwards. A use case with
    state is refused.

    Example: `headrace rerun acme/pages --from 2026-05-17T10:05:00+00:00 --dry-run`
    """
    with store_of(config) as store, closing(log_of(config)) as log:
        if not 0 < share < 1:
            raise ConfigError(f"a share of {share:g} cannot be; it is above 0 and below 1")
        chosen = _chosen(store, what)

        def planned() -> list[RerunRange]:
            return [range_of(store, log, stream, first, until) for stream in chosen]

        _check_stateless(store, chosen, config)
        ranges = planned()
        _show(ranges, config)
        if dry_run:
            return
        if not yes:
            words = _typed(what, first, until, share)
            agree(_again(ranges), config, "rerun", *words)
            while not _of_same_lanes(now := planned(), ranges):
                out.print("its lanes are others by now:")
                _show(now, config)
                agree(_again(now), config, "rerun", *words)
                ranges = now
        for range_ in ranges:
            _begin(store, range_, share)


def _begin(store: Store, wanted: RerunRange, share: float) -> None:
    made = begin(store, wanted, share)
    out.print(
        f"begun as {made}; 'headrace streams list' shows it, and "
        f"'headrace streams remove {made}' ends it",
        highlight=False,
        soft_wrap=True,
    )


def _typed(what: str, first: str, until: str | None, share: float) -> list[str]:
    """What was typed, to be typed again."""
    more = [] if until is None else ["--until", until]
    return [what, "--from", first, *more, *(["--share", f"{share:g}"] if share != _SHARE else [])]


def _show(ranges: Sequence[RerunRange], config: Path) -> None:
    for range_ in ranges:
        _tell(range_)
    show_consequences(_again(ranges), config)


def _of_same_lanes(now: Sequence[RerunRange], asked: Sequence[RerunRange]) -> bool:
    return all(one.is_of_same_lanes(other) for one, other in zip(now, asked, strict=True))


def _again(ranges: Sequence[RerunRange]) -> list[Seek]:
    return [_as_seek(range_) for range_ in ranges]


def _as_seek(wanted: RerunRange) -> Seek:
    """What comes of it: the same as of a seek from where it ends to where it begins."""
    shifts = {
        lane: Shift(at=end, to=start, again=wanted.places[lane], passed=0)
        for lane, (start, end) in wanted.lanes.items()
    }
    return Seek(wanted.stream, wanted.topic, shifts, wanted.topic_id or "")


def _chosen(store: Store, what: str) -> list[StreamId]:
    if "/" in what:
        return [stream_of(what)]
    found = [
        stream.id
        for stream in store.registry.streams()
        if stream.id.tenant == what
        and stream.state is not State.REMOVED
        and RERUN_MARK not in stream.id.use_case
    ]
    if not found and what not in {tenant.name for tenant in store.registry.tenants()}:
        raise no_tenant(what)
    if not found:
        raise ConfigError(f"tenant {what} has no stream; 'headrace streams list' shows them all")
    return found


def _check_stateless(store: Store, chosen: Sequence[StreamId], config: Path) -> None:
    """Refuse what has state: in the middle of a log there is none, and it would stop at once.

    Where the code cannot be had here, what is kept tells.
    """
    code = {name: deployed(config, name) for name in sorted({of.use_case for of in chosen})}
    have = [
        stream
        for stream in chosen
        if (store.kept_state.parts(stream) if (use := code[stream.use_case]) is None else use.state)
    ]
    if have:
        others = "; name the others one by one" if len(have) < len(chosen) else ""
        raise ConfigError(
            f"{', '.join(map(str, have))} keeps state, and there is none of where a rerun begins: "
            f"nothing is begun. 'headrace streams seek {have[0]} --to earliest --forget-state' "
            f"reads the stream itself again, and begins without state{others}"
        )


def _tell(wanted: RerunRange) -> None:
    several = are_of_several(wanted.lanes)
    for lanes, (start, end) in alike(wanted.lanes):
        name = together(lanes, wanted.topic, several=several)
        out.print(
            f"{wanted.stream} {name}: offsets {start}..{end}, "
            f"at most {wanted.places[lanes[0]]} records",
            highlight=False,
            soft_wrap=True,
        )
    out.print(f"{wanted.stream}: at most {wanted.most} records", highlight=False)
