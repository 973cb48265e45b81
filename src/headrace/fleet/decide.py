"""What a supervisor does next: start a driver, wait, give one up, drain, roll.

Supervisors go wrong in their combinations: a stop during a roll, a death while draining, a driver
that dies as fast as it is started. So all decisions are one pure function. `decide` takes the
state, one event and the time, and returns the next state and what to do; it knows no process and
no clock, and chance comes with the event.

The rules:

- A driver that ends without being asked is started again, after a wait that doubles with each
  failure. After ``healthy_after_s`` of being ready its earlier failures are forgotten.
- It is *given up* after ``most_failures`` failures within ``window_s``, and at once if it says that
  its configuration is wrong (`EXIT_CONFIG`). An end that may pass by itself (`EXIT_TEMPORARY`: the
  store does not answer) is waited for and never counts.
- One that says it is without its store or Kafka *waits*: it is not ready, and left alone.
- A stop drains all; who has not drained after ``drain_s`` is killed. A second stop kills all.
- A roll drains one driver, starts its replacement under the same name, waits until that is ready,
  and goes on to the next. Two drivers are never down for it. A replacement that is given up ends
  the roll, and those not rolled yet go on as they were. The old one drains before the new one is
  started: both have one name, under which the store lets only the newest commit, and a machine may
  have no room for one driver more.

Not here: processes, files, signals (`supervise.py`), and who is healthy (`probe.py`).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from headrace.fleet.states import (
    EXIT_CONFIG,
    EXIT_TEMPORARY,
    MEANT_TO_RUN,
    Action,
    Decision,
    Drain,
    DriverState,
    Event,
    Exited,
    FleetState,
    Kill,
    Lacks,
    Phase,
    Ready,
    RestartRules,
    RollAsked,
    Start,
    StopAsked,
    Tick,
    Unhealthy,
)
from headrace.model.statistics import Missing


def begin(wanted: int, rules: RestartRules, now_s: float) -> Decision:
    """The first state: so many drivers, all to be started."""
    drivers = tuple(DriverState(Phase.STARTING, now_s) for _ in range(wanted))
    return FleetState(rules, drivers), tuple(Start(index) for index in range(wanted))


def decide(state: FleetState, event: Event, now_s: float) -> Decision:
    """What follows from an event.

    Args:
        state: as returned before.
        event: what happened. One about a driver that has no process is ignored.
        now_s: monotonic.

    Returns:
        The next state, and what to do, in this order.
    """
    actions: tuple[Action, ...] = ()
    match event:
        case Ready(index):
            after = _ready(state, index, now_s)
        case Lacks(index, missing):
            after = _lacks(state, index, missing, now_s)
        case Exited():
            after, actions = _exited(state, event, now_s)
        case Unhealthy(index, reason):
            after, actions = _unhealthy(state, index, reason, now_s)
        case StopAsked():
            after, actions = _stop(state, now_s)
        case RollAsked():
            after, actions = _roll_asked(state, now_s)
        case Tick():
            after, actions = _tick(state, now_s)
    after, more = _roll_next(after, now_s)
    return after, (*actions, *more)


def _ready(state: FleetState, index: int, now_s: float) -> FleetState:
    driver = state.drivers[index]
    if driver.phase not in {Phase.STARTING, Phase.WAITING}:
        return state
    rolling = None if state.rolling == index else state.rolling
    ready = replace(driver, phase=Phase.READY, since_s=now_s, missing=())
    return replace(_with(state, index, ready), rolling=rolling)


def _lacks(state: FleetState, index: int, missing: tuple[Missing, ...], now_s: float) -> FleetState:
    driver = state.drivers[index]
    if driver.phase not in MEANT_TO_RUN:
        return state
    if driver.phase is Phase.READY and missing:
        if _is_healthy(state, driver, now_s):
            driver = replace(driver, streak=0, failures_s=())
        driver = replace(driver, phase=Phase.WAITING, since_s=now_s)
    return _with(state, index, replace(driver, missing=missing))


def _is_healthy(state: FleetState, driver: DriverState, now_s: float) -> bool:
    """Whether its earlier failures are to be forgotten."""
    return driver.phase is Phase.READY and now_s - driver.since_s >= state.rules.healthy_after_s


def _exited(state: FleetState, event: Exited, now_s: float) -> Decision:
    index, driver = event.index, state.drivers[event.index]
    if not driver.running:
        return state, ()
    # Whatever is started from now on is the new version.
    state = replace(state, to_roll=tuple(number for number in state.to_roll if number != index))
    if state.stopping:
        why = event.error if driver.phase is not Phase.DRAINING or event.code else driver.error
        stopped = replace(driver, phase=Phase.STOPPED, since_s=now_s, due_s=inf, error=why)
        return _with(state, index, stopped), ()
    if driver.rolled:
        return _started(state, index, now_s)
    error = driver.error if driver.phase is Phase.KILLED else event.error
    return _failed(state, replace(event, error=error), now_s), ()


def _failed(state: FleetState, event: Exited, now_s: float) -> FleetState:
    rules, driver = state.rules, state.drivers[event.index]
    was_healthy = _is_healthy(state, driver, now_s)
    streak = 0 if was_healthy else driver.streak
    failures_s = tuple(at_s for at_s in driver.failures_s if now_s - at_s < rules.window_s)
    if was_healthy:
        failures_s = ()
    if event.code != EXIT_TEMPORARY:
        failures_s += (now_s,)
    failed = replace(
        driver,
        phase=Phase.FAILED,
        since_s=now_s,
        due_s=now_s + _wait_s(rules, streak, event.chance),
        streak=streak + 1,
        failures_s=failures_s,
        error=event.error,
        missing=(),
    )
    if event.code != EXIT_CONFIG and len(failures_s) < rules.most_failures:
        return _with(state, event.index, failed)
    given_up = replace(failed, phase=Phase.GIVEN_UP, due_s=inf)
    return _without_roll(_with(state, event.index, given_up), event.index)


def _wait_s(rules: RestartRules, streak: int, chance: float) -> float:
    """Doubling, with half of it left to chance: drivers that fell together do not rise together."""
    longest = min(rules.longest_wait_s, rules.first_wait_s * 2.0 ** min(streak, 30))
    return longest * (0.5 + 0.5 * chance)


def _without_roll(state: FleetState, culprit: int) -> FleetState:
    if not state.in_roll:
        return state
    left = f", {len(state.to_roll)} still run the old version" if state.to_roll else ""
    why = f"the replacement of driver {culprit} was given up{left}"
    # Another one may be on its way out for the roll, and comes back.
    rolling = None if state.rolling == culprit else state.rolling
    return replace(state, to_roll=(), rolling=rolling, roll_error=why)


def _unhealthy(state: FleetState, index: int, reason: str, now_s: float) -> Decision:
    driver = state.drivers[index]
    # One that drains has a time limit of its own.
    if driver.phase not in MEANT_TO_RUN:
        return state, ()
    killed = replace(driver, phase=Phase.KILLED, since_s=now_s, error=reason, missing=())
    return _with(state, index, killed), (Kill(index),)


def _stop(state: FleetState, now_s: float) -> Decision:
    drivers, actions = list(state.drivers), list[Action]()
    for index, driver in enumerate(state.drivers):
        if state.stopping and driver.phase is Phase.DRAINING:
            drivers[index] = replace(driver, phase=Phase.KILLED, since_s=now_s, due_s=inf)
            actions.append(Kill(index))
        elif driver.phase in MEANT_TO_RUN:
            drivers[index] = _draining(driver, state.rules, now_s)
            actions.append(Drain(index))
        elif driver.phase is Phase.FAILED:
            drivers[index] = replace(driver, phase=Phase.STOPPED, since_s=now_s, due_s=inf)
    after = replace(state, drivers=tuple(drivers), stopping=True, to_roll=(), rolling=None)
    return after, tuple(actions)


def _draining(driver: DriverState, rules: RestartRules, now_s: float) -> DriverState:
    due_s = now_s + rules.drain_s
    return replace(driver, phase=Phase.DRAINING, since_s=now_s, due_s=due_s, missing=())


def _roll_asked(state: FleetState, now_s: float) -> Decision:
    if state.stopping:
        return state, ()
    # One that is on its way out comes back as the new version anyway.
    drivers = enumerate(state.drivers)
    to_roll = tuple(index for index, driver in drivers if driver.phase in MEANT_TO_RUN)
    rolling = None if state.rolling in to_roll else state.rolling
    state = replace(state, to_roll=to_roll, rolling=rolling, roll_error="")
    actions: list[Action] = []
    for index, driver in enumerate(state.drivers):
        if driver.phase in {Phase.FAILED, Phase.GIVEN_UP}:
            fresh = replace(driver, streak=0, failures_s=())
            state, started = _started(_with(state, index, fresh), index, now_s)
            actions += started
    return state, tuple(actions)


def _tick(state: FleetState, now_s: float) -> Decision:
    actions: list[Action] = []
    for index, driver in enumerate(state.drivers):
        if driver.due_s > now_s:
            continue
        if driver.phase is Phase.FAILED:
            state, started = _started(state, index, now_s)
            actions += started
        elif driver.phase is Phase.DRAINING:
            why = f"had not drained after {state.rules.drain_s:g} s"
            killed = replace(driver, phase=Phase.KILLED, since_s=now_s, due_s=inf, error=why)
            state = _with(state, index, killed)
            actions.append(Kill(index))
    return state, tuple(actions)


def _started(state: FleetState, index: int, now_s: float) -> Decision:
    driver = state.drivers[index]
    started = replace(
        driver,
        phase=Phase.STARTING,
        since_s=now_s,
        due_s=inf,
        restarts=driver.restarts + 1,
        rolled=False,
        missing=(),
    )
    return _with(state, index, started), (Start(index),)


def _roll_next(state: FleetState, now_s: float) -> Decision:
    """Take the next driver out, if nobody misses it."""
    if state.stopping or state.rolling is not None or not state.to_roll:
        return state, ()
    index = _next_to_roll(state)
    if index is None:
        return state, ()
    leaving = replace(_draining(state.drivers[index], state.rules, now_s), rolled=True)
    left = tuple(number for number in state.to_roll if number != index)
    return replace(_with(state, index, leaving), to_roll=left, rolling=index), (Drain(index),)


def _next_to_roll(state: FleetState) -> int | None:
    # One that is not ready does no work: to replace it costs nothing, and may be the cure.
    for index in state.to_roll:
        if state.drivers[index].phase in {Phase.STARTING, Phase.WAITING}:
            return index
    everybody_works = all(driver.phase is Phase.READY for driver in state.drivers)
    return state.to_roll[0] if everybody_works else None


def _with(state: FleetState, index: int, driver: DriverState) -> FleetState:
    drivers = state.drivers
    return replace(state, drivers=(*drivers[:index], driver, *drivers[index + 1 :]))
