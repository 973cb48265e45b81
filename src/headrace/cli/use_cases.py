"""`headrace use-cases`: what is deployed, and deploying one anew while drivers run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.table import Table
from rich.text import Text

from headrace.cli.amounts import counted
from headrace.cli.asking import YesOption, confirm
from headrace.cli.console import (
    DEFAULT_CONFIG,
    ConfigOption,
    JsonOption,
    copies_at_risk,
    err,
    out,
    print_json,
    print_list,
    say,
    settings_and_folder,
    store_of,
)
from headrace.cli.rollouts import (
    is_done,
    row_of,
    show,
    show_newer,
    show_others,
    show_stopped,
    waited,
)
from headrace.deploying.checking import Declared
from headrace.deploying.offer import (
    check,
    connections_of,
    file_that_gives,
    no_more_in_file,
    paths_so_far,
    wanted,
)
from headrace.deploying.offer import deploy as deploy_into
from headrace.errors import ConfigError, UnknownName
from headrace.model.records import Deployment
from headrace.model.streams import State, Stopper, StreamId
from headrace.operating.over import reruns_over
from headrace.operating.retiring import lacking, left_out, retire, taken_from
from headrace.operating.rollout import (
    Rollout,
    Standings,
    Stopped,
    asked_again,
    overtaken,
    standings_now,
    stopped,
)
from headrace.operating.topics import absent
from headrace.policies.rollout import Stand, Standing
from headrace.ports import Store

app = typer.Typer(
    no_args_is_help=True, help="Use cases: list, deploy and update one by one, resume, remove."
)


@app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="Also reruns that are over.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Show what is deployed, with the version of each, and which drivers run it.

    What the file has no more runs on, and is named.

    Example: `headrace use-cases list`
    """
    with store_of(config) as store:
        deployments = store.registry.deployments()
        if not every:
            over = reruns_over(deployments, store.registry.streams())
            deployments = [known for known in deployments if known.use_case not in over]
        found = standings_now(store, deployments, time.time())
        values = [_row(deployment, found[deployment.use_case]) for deployment in deployments]
        words = ("use case", "topic", "order", "guarantee", "sink", "priority", "version")
        table = Table(*words, "runs on", "module", box=None)
        for deployment in deployments:
            table.add_row(*map(Text, _cells(deployment, found[deployment.use_case])))
        print_list(table, values, as_json=as_json)
        if not as_json:
            show_others(found)
        gone = no_more_in_file(*settings_and_folder(config), store.registry)
    _tell_left_out(gone)


def _tell_left_out(gone: Mapping[str, Path]) -> None:
    for name, path in gone.items():
        say(
            f"warning: {name} is not in {path.name} any more, and runs on as it was "
            f"deployed: 'headrace use-cases remove {name}' ends it",
            err,
        )


def _cells(deployment: Deployment, found: Sequence[Standing]) -> tuple[str, ...]:
    runs = [standing.driver for standing in found if standing.stand is Stand.RUNS]
    return (
        deployment.use_case,
        deployment.topic,
        _order(deployment),
        deployment.guarantee or "-",
        deployment.sink or "-",
        str(deployment.priority),
        deployment.digest[:12],
        ", ".join(runs) or "-",
        deployment.module,
    )


def _order(deployment: Deployment) -> str:
    buckets = f", {deployment.buckets} buckets" if deployment.buckets > 1 else ""
    return f"{deployment.order.value}{buckets}"


def _row(deployment: Deployment, found: Sequence[Standing]) -> dict[str, object]:
    return {
        "use_case": deployment.use_case,
        "topic": deployment.topic,
        "order": deployment.order.value,
        "buckets": deployment.buckets,
        "guarantee": deployment.guarantee or None,
        "sink": deployment.sink or None,
        "priority": deployment.priority,
        "digest": deployment.digest,
        "module": deployment.module,
        "drivers": [row_of(standing) for standing in found],
    }


@app.command()
def resume(
    name: Annotated[str, typer.Argument(help="The use case.", show_default=False)],
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Go on with streams and lanes of a use case that failures stopped; what failed is retried.

    One thing often stops lanes of many tenants, such as a bug or a topic that is missing; and with
    `bad_record="fail"` one bad record stops the use case for all. This undoes both. Streams that
    somebody suspended by hand stay suspended, and what failed in them is not retried.

    Example: `headrace use-cases resume score`
    """
    with store_of(config) as store:
        if name not in {deployment.use_case for deployment in store.registry.deployments()}:
            raise UnknownName(
                f"there is no use case {name}; 'headrace use-cases list' shows them",
                kind="use case",
                name=name,
            )
        failed = _with_open_failures(store)
        count, by_hand = 0, []
        for stream in store.registry.streams():
            stopped_by_failure = Stopper.FAILURE in stream.stopped_by or stream.id in failed
            if stream.id.use_case != name or not stopped_by_failure:
                continue
            # Who had stopped its stream by hand besides has to resume it too.
            if stream.stopped_by - {Stopper.FAILURE}:
                by_hand.append(stream.id)
            else:
                count += 1
            if Stopper.FAILURE in stream.stopped_by or not stream.stopped_by:
                store.registry.set_stream_state(stream.id, State.ACTIVE, by=Stopper.FAILURE)
        out.print(f"streams of {name} resumed: {count}", highlight=False)
        for stream_id in by_hand:
            more = f"'headrace streams resume {stream_id}'"
            line = f"stream {stream_id} was suspended by hand: {more} lets it go on"
            say(line)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(help="The use case.", show_default=False)],
    yes: YesOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """End a use case for all tenants, such as one that its file has no more and that runs on.

    Its streams and reruns are removed, and tenants that are added later get none. What is in flight
    may end; its topics and results are left alone. Deployed again it is for tenants that never had
    it; `streams add` gives it back to the others, from startingOffsets on. So that is said of one
    that is still in its file.

    Example: `headrace use-cases remove score`
    """
    with store_of(config) as store:
        if not yes and name in {known.use_case for known in store.registry.deployments()}:
            say(f"all streams of {name} are removed, and with them where they go on")
            confirm(config, "use-cases", "remove", name)
        count = len(retire(store.registry, name))
        say(f"use case {name} removed, and {counted(count, 'stream')} of it")
        file = file_that_gives(*settings_and_folder(config), name)
    if file is not None:
        say(
            f"warning: {name} is still in {file.name}: the next deploy, or start of a driver, "
            "gives it to tenants that never had it; take it out there",
            err,
        )


def _with_open_failures(store: Store) -> dict[StreamId, int]:
    """How many lanes of each stream stopped at a failure."""
    failures = store.failures.every(only_open=True, with_records=False)
    return Counter(failure.slice.lane.stream for failure in failures)


@app.command()
def deploy(
    name: Annotated[str | None, typer.Argument(help="Only this one; else all of the file.")] = None,
    *,
    wait_s: Annotated[
        float, typer.Option("--wait-s", min=0, help="Seconds to wait for the drivers.")
    ] = 90.0,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Only write it down; drivers take it by themselves.")
    ] = False,
    as_json: JsonOption = False,
    config: ConfigOption = DEFAULT_CONFIG,
) -> None:
    """Deploy the file's use cases as they are now, and wait until all running drivers run them.

    Exits with 1 if a driver refuses one, which then goes on with the version before, does not
    answer in time, or if somebody else deployed after it. What is stopped by failures stays so: a
    deployment retries nothing. What the file has no more runs on, and is named.

    First a process of its own imports the module, packs the use cases and prepares their sinks,
    within `deploy_timeout` (60 s). If anything of that fails, nothing is deployed. A copy of the
    module, and of the local modules that it imports, is kept in the folder `versions`.

    Example: `headrace use-cases deploy score`
    """
    with store_of(config) as store:
        settings, folder = settings_and_folder(config)
        if trouble := copies_at_risk(config, settings):
            say(f"warning: {trouble}", err)
        try:
            offer = check(settings, folder, only=name)
        except ConfigError:
            _tell_as_they_were(store, name)
            raise
        asked = {deployment.use_case: deployment for deployment in wanted(settings, offer, name)}
        before = store.registry.deployments()
        paths = paths_so_far(offer, folder, store.registry)
        changed = {
            deployment.use_case for deployment in deploy_into(settings, offer, store.registry, name)
        }
        _tell_taken(taken_from(before, paths, changed), offer.path)
        revisions = {
            deployment.use_case: deployment.revision
            for deployment in asked_again(store.registry, asked, asked if no_wait else changed)
        }
        deployments = [
            replace(deployment, revision=revisions[name]) for name, deployment in asked.items()
        ]
        found = (
            standings_now(store, deployments, time.time())
            if no_wait
            else waited(Rollout(store, deployments, settings.driver.lease), wait_s)
        )
        newer = overtaken(store.registry, deployments)
        runs_on = left_out(store.registry, paths, offer.use_cases)
        declared = {name: offer.use_cases[name] for name in asked}
        operators = {name: one.operator for name, one in declared.items() if one.operator}
        idle = lacking(store.registry, asked, operators)
        tenants = {one.name for one in store.registry.tenants() if one.state is not State.REMOVED}
        deployed = [
            _deployed(store, deployment, changed, found, newer) for deployment in deployments
        ]
    if as_json:
        print_json([use_case.row for use_case in deployed])
    else:
        _show(deployed)
    _tell_left_out(dict.fromkeys(runs_on, offer.path))
    _tell_idle(idle, asked, declared, tenants)
    _tell_absent(connections_of(settings, folder).kafka, declared)
    if not no_wait and (newer or not is_done(found)):
        raise typer.Exit(1)


def _tell_as_they_were(store: Store, name: str | None) -> None:
    """Say what runs where nothing is deployed, which is the first question then."""
    running = [
        f"{known.use_case} goes on as {known.digest[:12]}"
        for known in store.registry.deployments()
        if name in {None, known.use_case}
    ]
    say("; ".join(["nothing is deployed", *running]), err)


def _tell_taken(before: Mapping[str, str], path: Path) -> None:
    """Tell of use cases that were another file's, before anybody waits for drivers."""
    for name, module in before.items():
        say(
            f"warning: {name} was deployed from {module}, and is that of {path} from now on; if it "
            "was not meant: deploy it there again, and give one of the two another name",
            err,
        )


def _tell_idle(
    idle: Sequence[StreamId],
    asked: Mapping[str, Deployment],
    declared: Mapping[str, Declared],
    tenants: Collection[str],
) -> None:
    """Tell of use cases of which nothing runs, with what gives them a stream."""
    for stream in idle:
        add = f"'headrace streams add {stream}' gives it to one"
        operator = declared[stream.use_case].operator
        if operator and operator not in tenants:
            given = asked[stream.use_case].all_tenants
            then = "" if given else f" and 'headrace streams add {stream}'"
            add = (
                f"'headrace tenants add {operator}'{then}, since it divides the topic of {operator}"
            )
        elif operator:
            add = f"'headrace streams add {stream}', since it divides the topic of {operator}"
        none = f"tenant {operator} has no" if operator else "no tenant has a"
        say(
            f"warning: {none} stream of {stream.use_case}, so nothing of it runs: {add}",
            err,
        )


def _tell_absent(kafka: Mapping[str, str], declared: Mapping[str, Declared]) -> None:
    """Tell of topics for all that are written to, are not there, and that nothing else makes."""
    named = {name: one.has_to_be_there for name, one in declared.items() if one.has_to_be_there}
    gone = absent(kafka, set(named.values()))
    for name, topic in named.items():
        if topic in gone:
            say(
                f"warning: topic {topic}, to which {name} writes, is not there: "
                f"'headrace topics create {name}' makes it",
                err,
            )


class _Deployed(NamedTuple):
    """A use case that was deployed, and what came of it."""

    deployment: Deployment
    changed: bool
    standings: Sequence[Standing]
    stopped: Stopped
    #: what somebody else deployed after it
    newer: Deployment | None

    @property
    def row(self) -> dict[str, object]:
        """It, for programs."""
        newer = None if self.newer is None else self.newer.digest
        more = {"changed": self.changed, "stopped": self.stopped._asdict(), "newer": newer}
        return {**_row(self.deployment, self.standings), **more}


def _deployed(
    store: Store,
    deployment: Deployment,
    changed: Collection[str],
    found: Standings,
    newer: Mapping[str, Deployment],
) -> _Deployed:
    name = deployment.use_case
    left = stopped(store, name)
    return _Deployed(deployment, name in changed, found[name], left, newer.get(name))


def _show(deployed: Sequence[_Deployed]) -> None:
    standings = [standing for use_case in deployed for standing in use_case.standings]
    same = all(standing.stand is Stand.RUNS for standing in standings)
    if same and not any(use_case.changed or use_case.newer for use_case in deployed):
        drivers = sorted({standing.driver for standing in standings})
        runs = f", and runs on {', '.join(drivers)}" if drivers else "; no driver runs"
        say(f"nothing changed{runs}")
    else:
        for use_case in deployed:
            version = use_case.deployment.digest[:12]
            what = "deployed as" if use_case.changed else "is deployed already, as"
            out.print(f"{use_case.deployment.use_case} {what} {version}", highlight=False)
            if use_case.newer is not None:
                show_newer(use_case.deployment, use_case.newer)
            show(use_case.standings)
    for use_case in deployed:
        show_stopped(use_case.deployment.use_case, use_case.stopped)
