"""What a Python worker is to its machine: how soon it is served, and as which user.

A call may have its process served after all others (`os.nice`, `os.sched_setscheduler`), or give up
to be root, and return. Then all to come are slow, or may not write where its markers and files are,
and the one who is refused is a neighbour. So this is put back after each call. What only root may
take back cannot be where root was given up for good; such a call ends its worker, while its marker
still names the slice (`crash_markers.py`).

It does not see what else may be given up, such as capabilities of Linux.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rights:
    """What a process is."""

    niceness: int
    #: of Linux: by which of its rules it is served, and its place there
    scheduling: tuple[int, int]
    #: real and effective
    users: tuple[int, int]
    groups: tuple[int, int]
    other_groups: frozenset[int]

    def are_kept(self) -> bool:
        """Whether they are as they were, or could be made so."""
        now = rights_now()
        if now == self:
            return True
        with suppress(OSError):  # first, for only root may do what follows
            if now.users != self.users:
                os.setreuid(*self.users)
            if now.groups != self.groups:
                os.setregid(*self.groups)
            if now.other_groups != self.other_groups:
                os.setgroups(list(self.other_groups))
        with suppress(OSError):
            if now.niceness > self.niceness:
                os.setpriority(os.PRIO_PROCESS, 0, self.niceness)
        with suppress(OSError):
            if now.scheduling != self.scheduling:
                policy, place = self.scheduling
                os.sched_setscheduler(0, policy, os.sched_param(place))
        return not self.given_up()

    def given_up(self) -> list[str]:
        """What is otherwise now, by the names of what sets it."""
        now = rights_now()
        changed = {
            # Who gives way less than before hurts nobody here.
            "os.nice": now.niceness > self.niceness,
            "os.sched_setscheduler": now.scheduling != self.scheduling,
            "os.setgid": (now.groups, now.other_groups) != (self.groups, self.other_groups),
            "os.setuid": now.users != self.users,
        }
        return [name for name, is_so in changed.items() if is_so]


def rights_now() -> Rights:
    """What this process is now."""
    return Rights(
        os.getpriority(os.PRIO_PROCESS, 0),
        _scheduling(),
        (os.getuid(), os.geteuid()),
        (os.getgid(), os.getegid()),
        frozenset(os.getgroups()),
    )


def _scheduling() -> tuple[int, int]:
    if sys.platform != "linux":
        return 0, 0
    return os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
