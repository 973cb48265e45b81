"""Ending waves whose handler does not come back, and those that are others' by now.

How long a wave may take, `policies/watchdog.py` says. One that still waits for an executor is not
late: its time begins when a task of it does.

Of a driver that was asleep past its lease all streams are others'. What it still runs takes slots,
and is refused when it is done. With at-most-once it ends by itself: its records were claimed, and
nobody else makes their effects.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from headrace.board import Board
from headrace.model.records import Deployment
from headrace.model.streams import Guarantee
from headrace.model.waves import Wave
from headrace.policies.watchdog import limit_s
from headrace.ports import Engine
from headrace.telemetry.log_fields import of_wave
from headrace.use_cases import UseCase

log = structlog.get_logger(__name__)


def end_overdue(
    board: Board,
    engine: Engine[UseCase],
    version_of: Callable[[Wave], tuple[UseCase, Deployment]],
    now_s: float,
    load_s: float,
) -> None:
    """Have the engine end what runs for too long, each wave once.

    ``load_s`` is what a worker has to load a version.
    """
    for name, flight in board.flights.items():
        wave = flight.wave
        use_case, deployment = version_of(wave)
        shared = flight.shared and use_case.form == "slice"
        timeout_s, loads_s = deployment.handler_timeout_s, load_s if flight.cold else None
        most_s = limit_s(flight.predicted_s, timeout_s, shared=shared, load_s=loads_s)
        if flight.cancelled or now_s - flight.since_s <= most_s:
            continue
        began = engine.began(name)
        if began is None:
            continue  # it is asked again in the next turn
        if not began:
            flight.since_s = now_s  # it waits for an executor
            continue
        seconds = now_s - flight.since_s
        log.warning("wave overdue; it is ended", **of_wave(wave), seconds=seconds)
        flight.cancelled = True
        engine.cancel(name)


def end_lost(
    board: Board,
    engine: Engine[UseCase],
    version_of: Callable[[Wave], tuple[UseCase, Deployment]],
) -> None:
    """Have the engine end what runs of streams that others took over, but for what was claimed."""
    for name, flight in board.flights.items():
        use_case, _ = version_of(flight.wave)
        if use_case.guarantee is not Guarantee.AT_MOST_ONCE:
            log.warning("wave is another driver's by now; it is ended", **of_wave(flight.wave))
            engine.cancel(name)
