"""How the terminal shows where drivers are with what was deployed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict

from rich.text import Text

from headrace.cli.console import err, say
from headrace.cli.failure_text import printable, when
from headrace.model.records import Deployment
from headrace.operating.rollout import Rollout, Standings, Stopped
from headrace.policies.rollout import Stand, Standing


def waited(rollout: Rollout, wait_s: float) -> Standings:
    """Wait for the drivers; on a terminal it is said for whom."""
    status = err.status("waiting for drivers ...") if err.is_terminal else nullcontext()
    with status as shown:

        def on_look(found: Standings) -> None:
            waiting = {standing.driver for row in found.values() for standing in _waiting(row)}
            if shown is not None:
                shown.update(Text(f"waiting for {', '.join(sorted(waiting))} ..."))

        return rollout.wait(wait_s, on_look)


def is_done(found: Standings) -> bool:
    """Whether every driver that lives runs what was deployed."""
    done = (Stand.RUNS, Stand.SILENT)
    return all(standing.stand in done for row in found.values() for standing in row)


def show(row: Sequence[Standing]) -> None:
    """A line for each driver, or that there is none."""
    for standing in row:
        say(f"  {standing.driver} {told(standing)}")
    if all(standing.stand in (Stand.SILENT, Stand.GONE) for standing in row):
        say(f"  no driver runs: the next one to start takes it{_or_who_comes_back(len(row))}")


def _or_who_comes_back(silent: int) -> str:
    """One that gives no sign of life may be starved, and not dead."""
    if not silent:
        return ""
    return f", or {'this one' if silent == 1 else 'one of these'}, should it answer again"


def show_newer(deployment: Deployment, newer: Deployment) -> None:
    """A line that says that a deployment counts no more."""
    version = newer.digest[:12]
    what = "other settings" if newer.digest == deployment.digest else version
    say(f"  somebody else has deployed {what} after it, and the later one counts")


def show_others(found: Standings) -> None:
    """A line for each driver that does not run what was deployed."""
    for use_case, row in found.items():
        for standing in row:
            if standing.stand is not Stand.RUNS:
                say(f"{use_case}: {standing.driver} {told(standing)}{_since(standing)}")


def told(standing: Standing) -> str:
    """Where a driver is, in words."""
    if standing.stand is Stand.RUNS:
        return "runs it"
    if standing.stand is Stand.SILENT:
        return "gives no sign of life, and is not waited for"
    if standing.stand is Stand.GONE:
        return (
            "lived when this was deployed, and gives no sign of life since: its log says why, and "
            "if this ends it, deploy what was before"
        )
    if standing.stand is Stand.OVERTAKEN:
        return f"runs {(standing.digest or '')[:12]}, which was deployed after it"
    if standing.stand is Stand.WAITING:
        return f"has not answered yet{_before(standing) if standing.digest else ''}"
    again = "it tries again by itself" if standing.again else "deploy it again when that is mended"
    error = printable(" ".join((standing.error or "").split()))
    return f"refuses it: {error} ({again}){_before(standing)}"


def show_stopped(use_case: str, found: Stopped) -> None:
    """What the deployment lets alone, and what lets it go on."""
    if found.lanes:
        lanes = "1 lane is" if found.lanes == 1 else f"{found.lanes} lanes are"
        say(
            f"{use_case}: {lanes} stopped by failures, which no deployment ends: 'headrace "
            "quarantine list' shows them, 'headrace quarantine retry ID' lets one go on"
        )
    if found.streams:
        streams = "1 stream is" if found.streams == 1 else f"{found.streams} streams are"
        say(
            f"{use_case}: {streams} suspended by a failure: 'headrace use-cases resume {use_case}' "
            "lets them go on"
        )


def row_of(standing: Standing) -> dict[str, object]:
    """The same for programs."""
    return {**asdict(standing), "stand": standing.stand.value}


def _waiting(row: Sequence[Standing]) -> list[Standing]:
    return [standing for standing in row if standing.stand is Stand.WAITING]


def _since(standing: Standing) -> str:
    return "" if standing.since_s is None else f", since {when(standing.since_s)}"


def _before(standing: Standing) -> str:
    digest = standing.digest
    return "; it runs no version of it" if digest is None else f"; it goes on with {digest[:12]}"
