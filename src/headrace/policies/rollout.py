"""What became of a deployment at the drivers, from what they say and whether they live.

A deployment is not done when it is written down. Each driver takes it by itself, or cannot, and
says so; one that is dead says nothing any more, and what it said last may be old. So whoever
deploys looks at answers and beats together, until nobody is left to be waited for.

Nothing here reads the store or a clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.records import Answer, Deployment


class Stand(StrEnum):
    """Where a driver is with a deployment."""

    RUNS = "runs"  #: it runs it
    REFUSED = "refused"  #: it says why it does not
    OVERTAKEN = "overtaken"  #: it runs another version, which was deployed after this one
    WAITING = "waiting"  #: it has not answered yet
    SILENT = "silent"  #: it gives no sign of life; what it said last may be long over
    GONE = "gone"  #: it lived when this was deployed, and gives no sign of life since


@dataclass(frozen=True, slots=True)
class Standing:
    """One driver, and a deployment."""

    driver: str
    stand: Stand
    #: digest of the version that it runs, as far as it says; None is none
    digest: str | None = None
    #: since when, in seconds since 1970
    since_s: float | None = None
    #: why it refused it
    error: str | None = None
    #: it tries again by itself
    again: bool = False


def standings(
    deployment: Deployment,
    drivers: Iterable[str],
    silent: Collection[str],
    answers: Iterable[Answer],
    lived: Collection[str] = (),
) -> list[Standing]:
    """Where all drivers are with a deployment, by name.

    Args:
        deployment: as the store has it.
        drivers: those that the store has.
        silent: names of those that give no sign of life.
        answers: what drivers say, to whatever deployments.
        lived: names of those that gave signs of life when it was deployed.
    """
    said = {answer.driver: answer for answer in answers if answer.use_case == deployment.use_case}
    found = [_standing(name, said.get(name), deployment) for name in sorted(drivers)]
    return [
        _silent(standing, lived) if standing.driver in silent else standing for standing in found
    ]


def _silent(last: Standing, lived: Collection[str]) -> Standing:
    """What is known of one that says nothing any more, from where it was."""
    ends_there = last.stand is Stand.WAITING and last.driver in lived
    return Standing(last.driver, Stand.GONE if ends_there else Stand.SILENT)


def _standing(driver: str, answer: Answer | None, deployment: Deployment) -> Standing:
    if answer is None:
        return Standing(driver, Stand.WAITING)
    if answer.revision < deployment.revision:
        return Standing(driver, Stand.WAITING, answer.digest)
    stand = Stand.REFUSED
    if answer.error is None:
        stand = Stand.RUNS if answer.digest == deployment.digest else Stand.OVERTAKEN
    return Standing(driver, stand, answer.digest, answer.since_s, answer.error, answer.again)
