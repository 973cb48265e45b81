"""`headrace streams`: one tenant's topic as read by one use case."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.amounts import StreamName, UseCaseApart, stream_of
from headrace.cli.asking import (
    YesOption,
    agree_to,
    ask_again,
    ask_stream_removal,
    confirm,
    connections_in,
    log_of,
    show,
)
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    err,
    hint_of_up,
    out,
    print_list,
    say,
    settings_and_folder,
    store_of,
)
from headrace.cli.our_registry import drivers_ask_ours
from headrace.cli.servers import folder_of, remembered, running_up
from headrace.cli.stream_list import STATES, lags_or_why, listed, table_of, wanted
from headrace.errors import BrokerUnavailable, ConfigError
from headrace.model.buckets import parts_of, whole_lane
from headrace.model.lane_names import alike, said
from headrace.model.places import Place
from headrace.model.streams import RERUN_MARK, State, StreamId, original
from headrace.operating.again import of_forgetting
from headrace.operating.leases import asks_for_leases, lease_places
from headrace.operating.seeking import carry_out, check_state, planned, planned_again

app = typer.Typer(
    no_args_is_help=True, help="One tenant's topic in one use case: lag, seek, suspend, resume."
)


_NO_USE_CASE = (
    "no use case is deployed, so there are no streams: 'headrace use-cases deploy' deploys those "
    "of the file, or says what is wrong with them"
)
_NO_TENANT = "there is no tenant, so there are no streams: 'headrace tenants add NAME' adds one"


@app.command("list")
def list_(
    *,
    tenant: Annotated[str | None, typer.Option(help="Those of one tenant.")] = None,
    use_cases: Annotated[
        list[str] | None,
        typer.Option("--use-case", help="Those of this use case, or these. May be repeated."),
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--state", help=f"Those in this state, or these: {', '.join(STATES)}. May be repeated."
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also removed ones, and reruns that are over.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show streams: what each does now and why, its lag and positions.

    Where Kafka does not answer no lag is shown, and why is said on stderr. So is that no use case
    is deployed, or no tenant added, without which there are no streams.

    Example: `headrace streams list --tenant acme`, or `headrace streams list --state suspended`
    """
    with store_of(config) as store:
        asked = wanted(store.registry, tenant, use_cases or (), states or (), every)
        with closing(log_of(config)) as log:
            lags, away = lags_or_why(store, log, asked)
        settings, folder = settings_and_folder(config)
        ours = drivers_ask_ours(settings, store.keys, remembered(folder_of(folder)))
        up = running_up(folder)
        found = list(listed(store, lags, asked, time.time(), up, ours=ours))
        if away is not None:
            _tell_no_lag(away, config)
        print_list(table_of(found), [row.values() for row in found], as_json=as_json)
        if not store.registry.deployments():
            say(_NO_USE_CASE, err)
        elif all(tenant.state is State.REMOVED for tenant in store.registry.tenants()):
            say(_NO_TENANT, err)


def _tell_no_lag(away: BrokerUnavailable, config: Path) -> None:
    """Why there is no lag, in one line beside the list."""
    words = "; ".join(["no lag is known", str(away), *filter(None, [hint_of_up(config)])])
    say(" ".join(words.split()), err)


@app.command()
def add(
    name: StreamName,
    use_case: UseCaseApart = None,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Add one stream, for a use case that is not for all tenants.

    One that was removed starts at startingOffsets: it is asked first if that reads records again.

    A rerun is begun with its range, and not added: see `headrace rerun`.

    Example: `headrace streams add acme/score`
    """
    with store_of(config) as store:
        stream = stream_of(name, use_case)
        _refuse_rerun(stream)
        ask_again(store, [stream], config, yes, "streams", "add", str(stream))
        store.registry.add_stream(stream)
        out.print(f"stream {stream} added")


@app.command()
def suspend(
    name: StreamName, use_case: UseCaseApart = None, config: ConfigOption = DEFAULT_CONFIG
) -> None:
    """Stop planning one stream; its positions are kept.

    Example: `headrace streams suspend acme/score`
    """
    _set_state(config, name, use_case, State.SUSPENDED)


@app.command()
def resume(
    name: StreamName, use_case: UseCaseApart = None, config: ConfigOption = DEFAULT_CONFIG
) -> None:
    """Go on with a suspended stream where it stopped; what failed in it is retried.

    Example: `headrace streams resume acme/score`
    """
    with store_of(config) as store:
        stream = stream_of(name, use_case)
        store.registry.set_stream_state(stream, State.ACTIVE)
        if any(
            known.name == stream.tenant and known.state is State.SUSPENDED
            for known in store.registry.tenants()
        ):
            out.print(
                f"stream {stream} may go on, but its tenant {stream.tenant} is suspended: nothing "
                f"of it runs before 'headrace tenants resume {stream.tenant}'",
                highlight=False,
                soft_wrap=True,
            )
        else:
            out.print(f"stream {stream} is active")


@app.command()
def remove(
    name: StreamName,
    use_case: UseCaseApart = None,
    *,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Remove one stream. What is in flight may end; its topic and results are left alone.

    Added again, it starts at startingOffsets, and what it had read may be read again. So it says
    first how much is not read yet, and asks. To pause it, use suspend.

    Example: `headrace streams remove acme/score`
    """
    with store_of(config) as store:
        ask_stream_removal(store, stream_of(name, use_case), config, yes)
    _set_state(config, name, use_case, State.REMOVED)


@app.command()
def seek(  # noqa: PLR0913 - each is an option
    name: StreamName,
    use_case: UseCaseApart = None,
    *,
    to: Annotated[
        str,
        typer.Option(
            help="earliest, latest, a time such as 2026-05-17T10:05:00+00:00, one offset for all "
            'partitions, or Spark\'s form \'{"acme.visits":{"0":23}}\'; of several topics, null '
            "gives up one that is gone: '{\"acme.clicks\":null}'; of a stream of Kinesis 'LEASES "
            "entities:my-app', a connection and a table of the Kinesis Client Library."
        ),
    ],
    forget_state: Annotated[
        bool,
        typer.Option(
            "--forget-state",
            help="Of a use case with state: begin there without any. It is gone then.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count, move nothing.")] = False,
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Set where a stream reads next, also while it runs; lanes that a failure stopped go on.

    Says first how much is read again or passed over, and asks; once more if it is much more, or of
    other lanes, when it is answered. What is read again has its effects again, under every
    guarantee.

    Example: `headrace streams seek acme/score --to earliest --dry-run`
    """
    with store_of(config) as store:
        stream = stream_of(name, use_case)
        with closing(log_of(config)) as log:
            target: str | Mapping[str, Place] = to
            if asks_for_leases(to):
                target = lease_places(store, log, connections_in(config), stream, to)
            # Only what is done waits until the log has been asked for long enough.
            plan = planned(store, log, stream, target, None if dry_run else time.sleep)
            show([plan], config)
            check_state(store, plan, forget_state=forget_state)
            if forget_state:
                say(of_forgetting(stream))
            if dry_run:
                return
            if not yes:
                more = ("--forget-state",) if forget_state else ()
                words = ("streams", "seek", str(stream), "--to", to, *more)
                if forget_state and not plan.does_something:
                    confirm(config, *words)
                again = partial(planned_again, store, log, target)
                plan = agree_to(plan, again, config, *words)
        carry_out(store.progress, plan, forget_state=forget_state)
        shown = _reads_next(plan.offsets, plan.topic)
        if plan.given_up:
            out.print(f"stream {stream} gives up {', '.join(plan.given_up)}")
        if shown:
            out.print(f"stream {stream} reads next at {shown}")


def _reads_next(offsets: Mapping[str, Place], topic: str) -> str:
    """Where lanes read next; a lane once if all of its buckets do so from one place."""
    found = list[str]()
    for lanes, at in alike(offsets):
        named = [whole_lane(lanes[0])] if len(lanes) == parts_of(lanes[0]) else lanes
        found += [f"{said(lane, topic)}:{at}" for lane in named]
    return ", ".join(found)


def _refuse_rerun(stream: StreamId) -> None:
    if RERUN_MARK in stream.use_case:
        live = stream._replace(use_case=original(stream.use_case))
        raise ConfigError(
            f"{stream} is a rerun, and nobody would run it: one is begun with its range, as by "
            f"'headrace rerun {live} --from earliest'"
        )


def _set_state(config: Path, name: str, use_case: str | None, state: State) -> None:
    with store_of(config) as store:
        stream = stream_of(name, use_case)
        store.registry.set_stream_state(stream, state)
        out.print(f"stream {stream} is {state.value}")
