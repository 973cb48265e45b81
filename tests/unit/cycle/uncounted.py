"""Places of a log that can not count its records: where one is tells nothing of how many follow."""

from dataclasses import replace

from headrace.model.places import OPEN
from headrace.testing.wide_log import WIDE_PLACES

UNCOUNTED = replace(
    WIDE_PLACES, after=lambda _place, _records: OPEN, between=lambda _later, _place: None
)
