"""Whether a stream that nobody read for a while goes on where it stopped, or where its log is now.

Most want every record, however late. Who looks for what is odd just now wants none that is old: by
the time an hour of backlog is read, what it tells is over. A use case says so with ``restart``,
which holds where a driver takes a stream over that its last holder did not give back, and that
nobody had committed for ``restart_after``.

When that is so and what is passed over is decided in ``policies/restarting.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class RestartFrom(StrEnum):
    """Where a stream goes on that nobody read for a while."""

    POSITION = "position"  #: where it stopped
    LATEST = "latest"  #: at the end of its log, or at the first record that is not too old


@dataclass(frozen=True, slots=True)
class Restart:
    """Of a use case whose streams do not go on where they stopped."""

    #: seconds for which nobody committed
    after_s: float
    #: seconds; older records are passed over; None: all that is there
    max_age_s: float | None = None


def restart_of(
    said: RestartFrom, after_s: float | None, max_age_s: float | None, names: tuple[str, str]
) -> Restart | None:
    """What was said of a use case; None: its streams go on where they stopped.

    Args:
        said: where they go on.
        after_s: seconds for which nobody committed.
        max_age_s: seconds; None: nothing that is there is read.
        names: what the two are called where somebody wrote them.

    Raises:
        ValueError: it makes no sense together, or is no duration; the message says what to write.
    """
    after, max_age = names
    if said is RestartFrom.POSITION:
        lost = [
            name for name, of in zip(names, (after_s, max_age_s), strict=True) if of is not None
        ]
        if lost:
            raise ValueError(f"{lost[0]} is for restart latest; without it nothing is passed over")
        return None
    if after_s is None:
        raise ValueError(
            f"restart latest passes records over, so it needs {after}: for how long nobody has to "
            "have committed before that"
        )
    for name, given in ((after, after_s), (max_age, max_age_s)):
        if given is not None and not _is_duration(given):
            raise ValueError(f"{name} is a number of seconds above 0, not {given!r}")
    return Restart(float(after_s), None if max_age_s is None else float(max_age_s))


def _is_duration(given: object) -> bool:
    return type(given) in (int, float) and 0 < given < math.inf  # type: ignore[operator]
