"""How many slots there should be: enough to keep up, and to work off what waits in time.

A fleet of the size of the daily peak idles most of the day; one that follows every hiccup spends
its time starting executors. Spark's old streaming answered with the ratio of processing time to
batch interval: over 0.9 add an executor, under 0.3 remove one (SPARK-12133,
``ExecutorAllocationManager`` of ``org.apache.spark.streaming.scheduler``). There is no interval
here, so the *need* is counted in slots directly: those in use now, and those it takes to work off
the backlog within the target delay. What the slots in use do in one bin is on its way and no
backlog. The ratio is need to slots.

Growing is urgent and goes all the way at once. Shrinking can wait: the need must have fitted into
fewer slots for the whole cool-down, with room to spare, and then the largest need of that time
counts, so that a steady load with noise never makes the number go up and down. The
HorizontalPodAutoscaler of Kubernetes does the same in its stabilisation window.

With 4 slots, 3 of them busy, 15 task-seconds to do, bins of 1 s and a target of 2 s the need is
3 + (15 - 3) / 2 = 9; the ratio 2.25 is over 0.8, so the answer is 9 / 0.8, rounded up: 12 slots.
When the flood is over and 1.1 are busy, 1.1 / 0.6 rounds up to 2, after the cool-down.

The caller feeds what its waves used and what is waiting, in predicted task-seconds. Waves that are
counted when they end can add up to more than all slots did, so that is not believed; and a lane can
use one slot only, so it should count with at most the target delay. Executors come seconds after
they are asked for, and what piles up meanwhile says nothing about how many there should be: nothing
is added while some are coming, for a time, and for the cool-down in any case. Executors that start
also slow down those that work on the same machine. Nothing here asks for executors: the engine
does, given the number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from headrace.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SlotLimits:
    """Between how many slots to choose, and how soon."""

    least: int
    most: int
    #: a backlog is to be worked off within so many seconds
    target_delay_s: float = 2.0
    #: length of a bin
    bin_s: float = 1.0
    #: need over slots above which there are too few
    scale_up_ratio: float = 0.8
    #: need over slots that fewer slots may have at most
    scale_down_ratio: float = 0.6
    up_cooldown_s: float = 2.0
    #: longest wait for slots that were asked for, before still more are
    arrival_s: float = 20.0
    down_cooldown_s: float = 30.0

    def __post_init__(self) -> None:
        """Refuse limits that cannot be kept or would flap.

        Raises:
            ConfigError: the least is below 1 or above the most, or the ratios are out of order.
        """
        if not 1 <= self.least <= self.most:
            raise ConfigError(f"slots: least {self.least} and most {self.most} are out of order")
        if not 0 < self.scale_down_ratio < self.scale_up_ratio <= 1:
            raise ConfigError("slots: the ratios must be above 0, down below up, at most 1")


@dataclass(frozen=True, slots=True)
class Load:
    """What was used since the last look, and what waits now."""

    now_s: float
    #: seconds since the last look
    seconds: float
    #: task-seconds used in them
    busy_task_s: float
    #: predicted task-seconds of what waits or runs
    backlog_s: float
    #: slots that were asked for are not all there yet
    coming: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """The slots there should be, and what is remembered to choose them."""

    slots: int
    #: the largest need since fewer would have done
    need: float = 0.0
    #: since when fewer slots would have done; None while they would not
    low_since_s: float | None = None
    grown_at_s: float = float("-inf")


def scaled(scale: Scale, load: Load, limits: SlotLimits) -> Scale:
    """Decide how many slots there should be from now on.

    Args:
        scale: the answer of the last look; ``Scale(limits.least)`` at first.
        load: what was used and what waits.
        limits: between how many to choose.

    Returns:
        ``slots`` between ``least`` and ``most``; more backlog never gives fewer.
    """
    slots = _within(limits, scale.slots)
    used = min(load.busy_task_s / max(load.seconds, 1e-9), float(slots))
    piled_up_s = max(0.0, load.backlog_s - used * limits.bin_s)
    need = used + piled_up_s / limits.target_delay_s
    after = replace(scale, slots=slots)
    if need > slots * limits.scale_up_ratio:
        return _grown(after, need, load, limits)
    if _fewest(limits, need) >= slots:
        return replace(after, low_since_s=None)
    if scale.low_since_s is None:
        return replace(after, need=need, low_since_s=load.now_s)
    largest = max(scale.need, need)
    if load.now_s - scale.low_since_s < limits.down_cooldown_s:
        return replace(after, need=largest)
    return replace(after, slots=_fewest(limits, largest), low_since_s=None)


def _fewest(limits: SlotLimits, need: float) -> int:
    return _within(limits, math.ceil(need / limits.scale_down_ratio))


def _grown(scale: Scale, need: float, load: Load, limits: SlotLimits) -> Scale:
    scale = replace(scale, low_since_s=None)
    wanted = _within(limits, math.ceil(need / limits.scale_up_ratio))
    cooldown_s = limits.arrival_s if load.coming else limits.up_cooldown_s
    if wanted <= scale.slots or load.now_s - scale.grown_at_s < cooldown_s:
        return scale
    return replace(scale, slots=wanted, grown_at_s=load.now_s)


def _within(limits: SlotLimits, slots: int) -> int:
    return min(limits.most, max(limits.least, slots))
