"""How long a call of a handler, and a wave as a whole, may take before somebody ends it.

A handler that hangs holds its slot, its lane, and everybody who shares its bin. There are two
lines of defence. Inside the task each call has its *patience*; a call that overruns it is
interrupted, and the bin goes on. A call that can not be interrupted (a C library or an import that
never comes back) is left to the driver, which ends the whole wave after its *limit*.

Patience depends on the company. In a bin that several streams share, the neighbours wait too, so a
call is ended after twice what the whole bin was predicted to take. That says nothing against
the handler: its stream is merely tried again, alone. There it has its full ``handler_timeout_s``,
and to overrun that is to hang. A new stream that is tried in the express while all other slots are
held for long (`express.py`) has company, too, though it is alone in its bin.

With a bin predicted at 0.5 s and a timeout of 30 s: 1 s in company, 30 s alone. The driver ends a
wave of such bins after 20.5 s if they are shared, and after 136.5 s if they are of a single stream.

The first waves of a version, as many as there are slots, have more: workers start, and import its
module. On a busy machine that took 17 s, and tenants that were quick were suspected. How long an
import takes, who deployed it has seen: it was done within ``deploy_timeout``. A worker has twice
that, for a machine that is busier or a disk that is shared, and 60 s at least. A wave that is ended
while its worker still imports is no handler's fault (`spark/crash_markers.py`).
"""

from __future__ import annotations

#: a call in company may take so many times what its bin was predicted to take
_SHARED_TIMES = 2.0
#: no call is ended sooner: a garbage collection or a slow disk is no hang
_LEAST_S = 0.5
#: after the first call, the search for the record to blame, and that record by itself
_CALLS = 4.0
#: reading, writing, and the way back, on a busy machine
_GRACE_S = 15.0
#: the least of the same where workers are still to be started, and to import the module
_COLD_GRACE_S = 60.0
#: a worker may take so many times what importing a module may take where it is deployed
_LOADING_TIMES = 2.0


def patience_s(predicted_s: float, timeout_s: float, *, shared: bool) -> float:
    """Seconds one call of a handler may take.

    Args:
        predicted_s: what the whole bin was predicted to take.
        timeout_s: ``handler_timeout_s`` of the use case.
        shared: whether other streams wait in the same bin, or for its slot.
    """
    if not shared:
        return timeout_s
    return min(timeout_s, max(_LEAST_S, _SHARED_TIMES * predicted_s))


def loading_s(deploy_timeout_s: float) -> float:
    """Seconds that a worker has to load what was deployed within so many."""
    return max(_COLD_GRACE_S, _LOADING_TIMES * deploy_timeout_s)


def limit_s(
    predicted_s: float, timeout_s: float, *, shared: bool, load_s: float | None = None
) -> float:
    """Seconds a wave may run before the driver ends it; time spent queueing does not count.

    Args:
        predicted_s: what its longest bin was predicted to take.
        timeout_s: ``handler_timeout_s`` of the use case.
        shared: whether others wait for its calls.
        load_s: what its worker has to load this version, if it may be the first wave of it there.
    """
    return (
        (1.0 + _SHARED_TIMES) * predicted_s
        + (_GRACE_S if load_s is None else load_s)
        + _CALLS * patience_s(predicted_s, timeout_s, shared=shared)
    )
