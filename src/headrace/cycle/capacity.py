"""How much may run at once: slots, paces, and what a bin costs its slot besides its work.

The planner fills the slots that it is told of. How many these are, and how fast an overloaded use
case or sink may be fed, follows from what came back and from what waits: each wave that returns is
counted here, and each turn looks at the load.

Nothing is planned here, and no rule stands here: how many slots there should be is
`scaling.py`'s, and how fast is `pacing.py`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.board import Board
from headrace.cycle.gates import GateId, GateRate
from headrace.cycle.pacing import Pacing
from headrace.cycle.scaling import Scaling
from headrace.cycle.versions import Versions
from headrace.errors import CodeNotLoaded
from headrace.model.plans import Limits
from headrace.model.waves import Wave
from headrace.planning.demand import PROBES
from headrace.policies.elasticity import SlotLimits
from headrace.policies.express import learned_overhead_s, worth_starting
from headrace.ports import Engine, WaveResult
from headrace.use_cases import UseCase

#: receipts after which what a stream costs is known so well that a wave can have overrun
KNOWN = 3 * PROBES


@dataclass(slots=True)
class Capacity:
    """What an engine can do for these use cases now."""

    engine: Engine[UseCase]
    board: Board
    versions: Versions
    #: between how many slots to choose by load; None: as many as the engine has
    slot_limits: SlotLimits | None = None
    pacing: Pacing = field(default_factory=Pacing)
    scaling: Scaling | None = field(init=False)
    _overhead_s: float = 0.0
    #: by use case: the version that came back last, and how many waves of it did
    _came: dict[str, tuple[str, int]] = field(default_factory=dict)
    #: by use case: the version that a worker did not load in time; any later worker may be as slow
    _slow: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with the fewest slots."""
        self.scaling = Scaling(self.slot_limits) if self.slot_limits else None

    @property
    def slots(self) -> int:
        """Tasks that may be in flight at once."""
        # A bin sent to an executor that is still to come would wait for it, with its lanes.
        there = self.engine.slots
        return there if self.scaling is None else min(self.scaling.slots, there)

    @property
    def wanted_slots(self) -> int:
        """Tasks that should be able to run at once, when the executors asked for are there."""
        return self.slots if self.scaling is None else self.scaling.slots

    @property
    def paces(self) -> dict[str, float]:
        """Records a second that use cases are held to, if they are."""
        return self.pacing.in_force([version.use_case for version in self.versions.newest.values()])

    def limits(self, limits: Limits) -> Limits:
        """How a plan may look, whose express bins are worth what a bin costs besides its work."""
        return worth_starting(limits, self._overhead_s)

    def rates(self, use_case: str) -> dict[GateId, GateRate]:
        """The paces that the streams of a use case keep now."""
        return self.pacing.rates(self.versions.newest[use_case].use_case)

    def look(self, now_s: float) -> None:
        """Set paces and slots by what came back and what waits; once in each turn."""
        use_cases = {name: use_case for name, (use_case, _) in self.versions.newest.items()}
        busy = [self.board.streams[name] for name in self.board.ready if name in self.board.streams]
        flights = self.board.flights.values()
        self.pacing.sample([self.versions.of(flight.wave).use_case for flight in flights])
        self.pacing.poll(busy, use_cases, now_s)
        if self.scaling is None:
            return
        if self.scaling.poll(busy, self.engine.slots, self._overhead_s, now_s):
            self.engine.resize(self.scaling.slots)

    def is_cold(self, wave: Wave) -> bool:
        """Whether a worker may have no wave of its version behind it."""
        digest, came = self._came.get(wave.use_case, ("", 0))
        now = self.versions.of(wave).deployment.digest
        return digest != now or came < self.slots or self._slow.get(wave.use_case) == now

    def returned(self, result: WaveResult) -> None:
        """Count a wave that came back."""
        now = self.versions.of(result.wave).deployment.digest
        if result.error is not None:
            if result.error.code == CodeNotLoaded.__name__:
                self._slow[result.wave.use_case] = now
            return
        digest, came = self._came.get(result.wave.use_case, ("", 0))
        self._came[result.wave.use_case] = (now, came + 1 if now == digest else 1)
        streams = {piece.lane.stream for piece in result.wave.slices}
        held_here = [
            self.board.streams[stream] for stream in streams if stream in self.board.streams
        ]
        known = all(held.cost.samples >= KNOWN for held in held_here)
        if len(result.wave.bins) == 1 and result.receipts:
            work_s = sum(receipt.seconds for receipt in result.receipts)
            self._overhead_s = learned_overhead_s(self._overhead_s, result.seconds, work_s)
        self.pacing.add(result, self.versions.of(result.wave).use_case, known=known)
        if self.scaling is not None:
            self.scaling.add(result)
