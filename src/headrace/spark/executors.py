"""What executors there are, having more of them, and letting surplus ones go.

Spark's dynamic allocation adds executors while tasks wait. But many small tenants fit into one
task, which waits for nobody and still takes too long; and an executor that is asked for when tasks
wait comes seconds too late for them. It takes one away only when it has had nothing to do for a
minute, and Spark spreads tasks over all executors there are: a light, steady load of short tasks
keeps every executor of the last rush alive for good. So whoever knows how many are needed says so:
the missing ones are asked for, and the rest are decommissioned: they take no new task, end those
they run, and are gone.

``requestTotalExecutors`` is a public call for any cluster manager. For the rest there is none; what
is used are the calls of Spark's own allocation manager.
"""

from __future__ import annotations

import math
import sys
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


def resize_executors(session: SparkSession, slots: int) -> int:
    """Ask for as many executors as ``slots`` tasks at once need, and let the others go.

    The youngest go, because the clients of the others are warm. ``minExecutors`` stay, and there
    are never more than ``maxExecutors``. Without dynamic allocation nothing happens: there the
    number is not ours to change. To be called again and again: Spark's allocation manager has a
    number of its own in mind, and asks for that now and then.

    Returns:
        How many were let go.
    """
    context = session.sparkContext._jsc.sc()
    settings = session.sparkContext.getConf()
    if context.isLocal() or settings.get("spark.dynamicAllocation.enabled", "") != "true":
        return 0
    active = _active_ids(context)
    slots_each = max(1, known_slots(session) // max(1, len(active)))
    least = int(settings.get("spark.dynamicAllocation.minExecutors", "0") or 0)
    most = int(settings.get("spark.dynamicAllocation.maxExecutors", "") or sys.maxsize)
    wanted = min(most, max(least, math.ceil(slots / slots_each)))
    jvm: Any = session.sparkContext._jvm
    context.requestTotalExecutors(wanted, 0, jvm.PythonUtils.toScalaMap({}))
    why = jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo(
        "fewer slots are needed", jvm.scala.Option.empty()
    )
    return sum(
        context.schedulerBackend().decommissionExecutor(executor, why, False, False)
        for executor in active[wanted:]
    )


def _active_ids(context: Any) -> list[str]:
    """Ids of executors that are neither lost nor on their way out, oldest first."""
    found = context.getExecutorIds()
    ids = [found.apply(index) for index in range(found.size())]
    backend = context.schedulerBackend()
    return sorted((id_ for id_ in ids if backend.isExecutorActive(id_)), key=int)
