"""Headrace: many customers' Kafka topics on one Spark.

What a use case needs is here; everything else has its room (see ARCHITECTURE.md). It is imported
when it is used: whoever imports any room comes through here, and a command that lists tenants needs
neither Arrow nor NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import errors as errors
from headrace.late_imports import imported_late

if TYPE_CHECKING:
    from headrace.errors import BadRecord, HeadraceError, Permanent, Temporary
    from headrace.model.waves import Wave
    from headrace.payload.event_times import json_time
    from headrace.state.tables import StateTable
    from headrace.use_cases import SliceContext, UseCase, use_case

__all__ = [
    "BadRecord",
    "HeadraceError",
    "Permanent",
    "SliceContext",
    "StateTable",
    "Temporary",
    "UseCase",
    "Wave",
    "json_time",
    "use_case",
]

if not TYPE_CHECKING:  # a type checker would take any name for one of it
    __getattr__, __dir__ = imported_late(
        __name__,
        {
            "headrace.errors": (
                "BadRecord",
                "HeadraceError",
                "Permanent",
                "Temporary",
            ),
            "headrace.model.waves": ("Wave",),
            "headrace.payload.event_times": ("json_time",),
            "headrace.state.tables": ("StateTable",),
            "headrace.use_cases": (
                "SliceContext",
                "UseCase",
                "use_case",
            ),
        },
    )
