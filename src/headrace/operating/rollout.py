"""Waiting until the drivers have taken what was deployed, and saying what does not go on by itself.

Answers come through the store, as do the beats by which a driver is seen to live; so this works for
one driver here and for many elsewhere. What the answers mean is decided in `policies/rollout.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.model.records import Deployment, Peer
from headrace.model.streams import Stopper
from headrace.policies.leases import PeerSilence, dead, watched
from headrace.policies.rollout import Stand, Standing, standings
from headrace.ports import Membership, Registry, Store
from headrace.telemetry.newest_reports import LOST_AFTER_S

LOOK_EVERY_S = 0.2

#: use case -> where each driver is with it
Standings = Mapping[str, list[Standing]]


class Stopped(NamedTuple):
    """What a deployment lets alone."""

    #: lanes that an open failure stops
    lanes: int
    #: streams that a failure suspended
    streams: int


@dataclass(slots=True)
class Rollout:
    """Deployments, followed from driver to driver."""

    store: Store
    #: as the store has them
    deployments: Collection[Deployment]
    #: silence after which a driver is taken for dead
    lease_s: float

    def wait(self, wait_s: float, on_look: Callable[[Standings], None]) -> Standings:
        """Look until every living driver has answered, or for so long.

        Args:
            wait_s: at most.
            on_look: told what each look shows.
        """
        seen: dict[str, PeerSilence] = {}
        lived = self._just_told()
        began_s = before_s = time.monotonic()
        while True:
            now_s = time.monotonic()
            before, seen = seen, watched(seen, self.store.membership.drivers(), now_s - before_s)
            before_s = now_s
            lived |= {name for name in before.keys() & seen.keys() if not seen[name].silent_s}
            found = self._look(seen, lived)
            on_look(found)
            stands = {standing.stand for row in found.values() for standing in row}
            if Stand.WAITING not in stands or now_s - began_s >= wait_s:
                return found
            time.sleep(LOOK_EVERY_S)

    def _just_told(self) -> set[str]:
        """Drivers that have told something lately, as they do every two seconds."""
        now_s, reports = time.time(), self.store.statistics.reports()
        return {report.driver for report in reports if now_s - report.at_s <= LOST_AFTER_S}

    def _look(self, seen: Mapping[str, PeerSilence], lived: Collection[str]) -> Standings:
        silent = {driver.name for driver in dead("", seen, self.lease_s)}
        peers = [driver.peer for driver in seen.values()]
        return _found(self.store.membership, self.deployments, peers, silent, lived)


def standings_now(store: Store, deployments: Collection[Deployment], now_s: float) -> Standings:
    """Where drivers are at this moment; who has told nothing for long gives no sign of life."""
    reports = store.statistics.reports()
    silent = {report.driver for report in reports if now_s - report.at_s > LOST_AFTER_S}
    return _found(store.membership, deployments, store.membership.drivers(), silent)


def _found(
    membership: Membership,
    deployments: Collection[Deployment],
    peers: Collection[Peer],
    silent: Collection[str],
    lived: Collection[str] = (),
) -> Standings:
    # A name that lost streams were found in is no driver: it never beats.
    drivers, answers = [peer.name for peer in peers if peer.beats], membership.answers()
    # Of a rerun that is over, or not begun yet, nobody runs anything.
    return {
        deployment.use_case: standings(
            deployment, drivers if deployment.until != {} else (), silent, answers, lived
        )
        for deployment in deployments
    }


def asked_again(
    registry: Registry, names: Collection[str], changed: Collection[str]
) -> list[Deployment]:
    """The deployments of these names, each with a revision that drivers have not answered yet.

    What was not changed is deployed once more as it is: who refused it tries again, and who runs it
    says so now, and not some time ago. What somebody else has deployed meanwhile stays.
    """
    for deployment in registry.deployments():
        if deployment.use_case in names and deployment.use_case not in changed:
            registry.deploy(deployment, over=deployment)
    return [deployment for deployment in registry.deployments() if deployment.use_case in names]


def overtaken(registry: Registry, wanted: Collection[Deployment]) -> dict[str, Deployment]:
    """What somebody else has deployed after these, by use case."""
    ours = {deployment.use_case: deployment for deployment in wanted}
    return {
        deployment.use_case: deployment
        for deployment in registry.deployments()
        if deployment.use_case in ours and deployment != ours[deployment.use_case]
    }


def stopped(store: Store, use_case: str) -> Stopped:
    """What of a use case goes on only when somebody says so."""
    failures = store.failures.every(only_open=True, with_records=False)
    lanes = sum(failure.slice.lane.use_case == use_case for failure in failures)
    streams = [stream for stream in store.registry.streams() if stream.id.use_case == use_case]
    return Stopped(lanes, sum(Stopper.FAILURE in stream.stopped_by for stream in streams))
