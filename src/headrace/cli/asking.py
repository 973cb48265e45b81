"""Asking before records are read again or passed over, and before a tenant or a stream is removed.

What a person orders twice cannot be told from what was wanted twice. So the terminal shows what
would come of it and asks; a script says ``--yes`` beforehand; and where nobody can be asked nothing
is done.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.amounts import counted
from headrace.cli.console import DEFAULT_CONFIG, say, settings_and_folder
from headrace.connectors.by_topic import LogByTopic, open_log
from headrace.cycle.lags import lags
from headrace.deploying.offer import connections_of, deployed_use_case, source_of
from headrace.errors import ConfigError, HeadraceError, Temporary
from headrace.model.lane_names import alike, are_of_several, together
from headrace.model.streams import State, StreamId, original
from headrace.operating.again import Unread, consequences, is_more, of_removal, of_stream_removal
from headrace.operating.repeats import repeated
from headrace.operating.seeking import Seek, Shift, begun_again
from headrace.ports import Connections, Store
from headrace.store import open_store
from headrace.use_cases import UseCase

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def show(seeks: Sequence[Seek], config: Path) -> None:
    """Say what would come of it, by lane and in words."""
    for seek in seeks:
        several = are_of_several(seek.shifts)
        for lanes, shift in alike(seek.shifts):
            say(f"{seek.stream} {together(lanes, seek.topic, several=several)}: {_told(shift)}")
    show_consequences(seeks, config)


def show_consequences(seeks: Sequence[Seek], config: Path) -> None:
    """Say in words alone what would come of it."""
    for use_case in sorted({original(seek.stream.use_case) for seek in seeks}):
        ours = [seek for seek in seeks if original(seek.stream.use_case) == use_case]
        again = any(seek.again != 0 for seek in ours)
        _consequences(ours, deployed(config, use_case) if again else None)


def agree(seeks: Sequence[Seek], config: Path, *command: str) -> None:
    """Go on if nothing comes of it, or if somebody says so.

    Args:
        seeks: what was shown.
        config: the YAML file that was named.
        command: words that do it, to be told with ``--yes`` where nobody can be asked.

    Raises:
        ConfigError: nobody can be asked.
    """
    if not any(seek.does_something for seek in seeks):
        return
    confirm(config, *command)


def agree_to(seek: Seek, plan_again: Callable[[Seek], Seek], config: Path, *command: str) -> Seek:
    """Go on with a seek that was shown, which is returned.

    If it came to much more while somebody was asked, or its lanes became others, it is shown and
    asked about anew: what is carried out is what somebody saw.

    Args:
        seek: what was shown.
        plan_again: what it would be now.
        config: the YAML file that was named.
        command: words that do it.

    Raises:
        ConfigError: nobody can be asked, or it can not be done any more.
    """
    agree([seek], config, *command)
    while (now := plan_again(seek)).parents != seek.parents or is_more(now, seek):
        others = now.parents != seek.parents
        say("its lanes are others by now:" if others else "it is more by now:")
        show([now], config)
        agree([now], config, *command)
        seek = now
    return seek


def confirm(config: Path, *command: str) -> None:
    """Ask whether to go on with what was shown.

    Args:
        config: the YAML file that was named.
        command: words that do it, to be told with ``--yes`` where nobody can be asked.

    Raises:
        ConfigError: nobody can be asked.
    """
    if _can_be_asked():
        typer.confirm("Go on?", abort=True)
        return
    more = () if config == DEFAULT_CONFIG else ("--config", str(config))
    words = shlex.join(["headrace", *command, *more, "--yes"])
    raise ConfigError(f"nothing is done: nobody can be asked here; if you mean it: {words}")


def streams_begun(store: Store, tenants: Iterable[str]) -> list[StreamId]:
    """The streams that begin with tenants: of each use case that is for all of them."""
    deployed = store.registry.deployments()
    for_all = [deployment.use_case for deployment in deployed if deployment.all_tenants]
    return [StreamId(use_case, tenant) for tenant in tenants for use_case in for_all]


def ask_again(
    store: Store, streams: Collection[StreamId], config: Path, yes: bool, *command: str
) -> None:
    """Before streams are added: of those that were removed, say what is read again, and ask.

    Raises:
        ConfigError: nobody can be asked.
        BrokerUnavailable: nobody knows how much it is, and nobody has said yes.
    """
    removed = {stream.id for stream in store.registry.streams() if stream.state is State.REMOVED}
    if not removed & set(streams):
        return
    try:
        with closing(log_of(config)) as log:
            seeks = begun_again(store, log, streams)
    except Temporary:
        if not yes:
            raise
        return
    say("it was removed, and begins at startingOffsets:")
    show(seeks, config)
    if not yes:
        agree(seeks, config, *command)


def ask_removal(store: Store, tenants: Sequence[str], config: Path, *command: str) -> None:
    """Before tenants are removed: say what is not read, what is lost and what is kept, and ask.

    Raises:
        ConfigError: nobody can be asked.
    """
    tell_removal(store, tenants, config)
    confirm(config, *command)


def tell_removal(store: Store, tenants: Sequence[str], config: Path) -> None:
    """Say what is not read, what is lost and what is kept where tenants are removed."""
    ours = set(tenants)
    unread = _unread(store, config, lambda stream: stream.tenant in ours)
    for sentence in of_removal(tenants, unread):
        say(sentence)


def ask_stream_removal(store: Store, stream: StreamId, config: Path, yes: bool) -> None:
    """Before a stream is removed that is there: say what comes of it as of tenants, and ask.

    Raises:
        ConfigError: nobody can be asked.
    """
    known = {held.id: held.state for held in store.registry.streams()}
    if yes or known.get(stream, State.REMOVED) is State.REMOVED:
        return
    for sentence in of_stream_removal(stream, _unread(store, config, stream.__eq__)):
        say(sentence)
    confirm(config, "streams", "remove", str(stream))


def _unread(
    store: Store, config: Path, wanted: Callable[[StreamId], bool]
) -> dict[StreamId, Unread] | None:
    """What waits of streams that are there; None: Kafka does not answer."""
    try:
        with closing(log_of(config)) as log:
            rows = lags(store, log, lambda stream, _: wanted(stream.id))
    except Temporary:
        return None
    live = [row for row in rows if row.state is not State.REMOVED and row.topic is not None]
    return {row.stream.id: Unread(row.lag_records, row.is_guess) for row in live}


def log_of(config: Path) -> LogByTopic:
    """What is in the logs that are read."""
    return open_log(connections_in(config), asks_once=True)


def connections_in(config: Path) -> Connections:
    """Where all servers are, as the YAML file says."""
    settings, folder = settings_and_folder(config)
    return connections_of(settings, folder)


def deployed(config: Path, name: str) -> UseCase | None:
    """The use case that runs, whatever lies in the folder; None if it cannot be had here."""
    settings, folder = settings_and_folder(config)
    try:
        with closing(open_store(settings.store_url())) as store:
            known = {deployment.use_case: deployment for deployment in store.registry.deployments()}
        with redirect_stdout(sys.stderr):  # a module may print; what we print may be JSON
            return deployed_use_case(known[name], source_of(settings, folder))
    except (HeadraceError, KeyError):
        return None


def _can_be_asked() -> bool:
    return sys.stdin.isatty()


def _told(shift: Shift) -> str:
    begin = "no position" if shift.at is None else str(shift.at)
    amounts = [
        f"{'nobody knows how many offsets' if amount is None else counted(amount, 'offset')} {what}"
        for amount, what in ((shift.again, "read again"), (shift.passed, "passed over"))
        if amount != 0
    ]
    return f"{begin} -> {shift.to}, {' and '.join(amounts) or 'nothing read again'}"


def _consequences(seeks: Sequence[Seek], use_case: UseCase | None) -> None:
    for sentence in consequences(seeks, use_case.guarantee if use_case else None):
        say(sentence)
    if use_case is not None:
        say(repeated(use_case.sink))
