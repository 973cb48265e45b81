"""Processes of a made-up world, which a supervisor starts and ends."""

from headrace.fleet.decide import begin, decide
from headrace.fleet.states import (
    Drain,
    Exited,
    Kill,
    Lacks,
    Phase,
    Ready,
    RestartRules,
    Start,
    Tick,
)
from headrace.model.statistics import Missing

RULES = RestartRules(
    first_wait_s=1,
    longest_wait_s=8,
    healthy_after_s=100,
    most_failures=5,
    window_s=200,
    drain_s=30,
)


class World:
    """Processes that do what they are told, or not; time is a number."""

    def __init__(self, wanted, rules=RULES):
        self.now_s = 0.0
        self.processes = {}
        self.killed = set()
        self.draining = set()
        self.starts = 0
        self.state, actions = begin(wanted, rules, self.now_s)
        self.obey(actions)

    def obey(self, actions):
        for action in actions:
            match action:
                case Start(index):
                    assert index not in self.processes, "a driver runs twice"
                    self.processes[index] = "starting"
                    self.starts += 1
                case Drain(index):
                    assert index in self.processes
                    self.draining.add(index)
                case Kill(index):
                    assert index in self.processes
                    self.killed.add(index)
        self.hold()

    def nobody_misses(self, before, lost, actions):
        """A roll takes one that works only when all others work."""
        for action in actions:
            if isinstance(action, Drain) and not self.state.stopping:
                others = [d for i, d in enumerate(self.state.drivers) if i != action.index]
                if before.drivers[action.index].phase is Phase.READY and action.index != lost:
                    assert all(other.phase is Phase.READY for other in others)

    def hold(self):
        """What must be true at any moment."""
        running = {i for i, driver in enumerate(self.state.drivers) if driver.running}
        assert running == set(self.processes)
        assert sum(driver.rolled for driver in self.state.drivers) <= 1
        if self.state.rolling is not None and not self.state.stopping:
            # whoever is on the way out for the roll is the one that is being replaced
            leaving = [i for i, driver in enumerate(self.state.drivers) if driver.rolled]
            assert leaving in ([], [self.state.rolling])

    def see(self, event):
        before = self.state
        self.state, actions = decide(before, event, self.now_s)
        # What has just lost a server does no work any more.
        lost = event.index if isinstance(event, Lacks) and event.missing else None
        self.nobody_misses(before, lost, actions)
        self.obey(actions)

    def exit(self, index, code=1, chance=1.0, error="it died"):
        for indices in (self.killed, self.draining):
            indices.discard(index)
        del self.processes[index]
        self.see(Exited(index, code, error, chance))

    def lacks(self, index, *missing):
        self.see(Lacks(index, tuple(Missing(server, 1.0) for server in missing)))

    def ready(self, *indices):
        for index in indices:
            self.processes[index] = "ready"
            self.see(Ready(index))

    def wait(self, seconds):
        self.now_s += seconds
        self.see(Tick())

    def phases(self):
        return [str(driver.phase) for driver in self.state.drivers]
