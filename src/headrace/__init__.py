"""Headrace: many customers' Kafka topics on one Spark.

What a use case needs is here; everything else has its room (see ARCHITECTURE.md).
"""

from headrace.errors import BadRecord, HeadraceError, Permanent, Temporary
from headrace.model.waves import Wave
from headrace.payload.event_times import json_time
from headrace.use_cases import SliceContext, UseCase, use_case

__all__ = [
    "BadRecord",
    "HeadraceError",
    "Permanent",
    "SliceContext",
    "Temporary",
    "UseCase",
    "Wave",
    "json_time",
    "use_case",
]
