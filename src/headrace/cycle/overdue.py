"""Ending waves whose handler does not come back.

How long a wave may take, `policies/watchdog.py` says. One that still waits for an executor is not
late: its time begins when a task of it does.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from headrace.board import Board
from headrace.model.records import Deployment
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
) -> None:
    """Have the engine end what runs for too long, each wave once."""
    for name, flight in board.flights.items():
        wave = flight.wave
        use_case, deployment = version_of(wave)
        shared = flight.shared and use_case.form == "slice"
        timeout_s, cold = deployment.handler_timeout_s, flight.cold
        most_s = limit_s(flight.predicted_s, timeout_s, shared=shared, cold=cold)
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
