"""What executors there are, and letting surplus ones go.

Spark's dynamic allocation adds executors while tasks wait, which is right. But it takes one away
only when it has had nothing to do for a minute, and Spark spreads tasks over all executors there
are: a light, steady load of short tasks keeps every executor of the last rush alive for good. So
whoever knows how many are needed says so, and the rest are decommissioned: they take no new task,
end those they run, and are gone.

Spark has no public calls for what is asked and done here; those used are its allocation manager's.
"""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql import SparkSession


def known_slots(session: SparkSession) -> int:
    """Tasks that the live executors can run at the same time; at least 1.

    ``defaultParallelism`` would not do: on a cluster it is 2 where one executor of one core lives.
    """
    context = session.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    return max(1, int(context.maxNumConcurrentTasks(profile)))


def live_executors(session: SparkSession) -> int:
    """Executors that take tasks now; a local session counts as one."""
    context = session.sparkContext._jsc.sc()
    return 1 if context.isLocal() else len(_active_ids(context))


def release_executors(session: SparkSession, slots: int) -> int:
    """Let executors go that ``slots`` tasks at once have no use for; return how many.

    The youngest go, because the clients of the others are warm. ``minExecutors`` stay. Without
    dynamic allocation nothing happens: nobody would ever bring an executor back.
    """
    context = session.sparkContext._jsc.sc()
    settings = session.sparkContext.getConf()
    if context.isLocal() or settings.get("spark.dynamicAllocation.enabled", "") != "true":
        return 0
    active = _active_ids(context)
    slots_each = max(1, known_slots(session) // max(1, len(active)))
    least = int(settings.get("spark.dynamicAllocation.minExecutors", "0") or 0)
    surplus = active[max(least, math.ceil(slots / slots_each)) :]
    jvm: Any = session.sparkContext._jvm
    why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
        "fewer slots are needed", jvm.scala.Option.empty()
    )
    # The allocation manager has lowered its own target already, as fewer tasks wait.
    return sum(
        context.schedulerBackend().decommissionExecutor(each, why, False, False) for each in surplus
    )


def _active_ids(context: Any) -> list[str]:
    """Ids of executors that are neither lost nor on their way out, oldest first."""
    found = context.getExecutorIds()
    ids = [found.apply(index) for index in range(found.size())]
    backend = context.schedulerBackend()
    return sorted((each for each in ids if backend.isExecutorActive(each)), key=int)
