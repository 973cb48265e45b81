"""What runs: bins and waves.

A wave is what one Spark job runs, and always of one use case: its handler, sink and guarantee are
then one thing for the whole job, and a failure of the job touches nobody else's. Its lanes (for
order ``stream``: its streams) are disjoint from those of every other wave in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from headrace.model.streams import Slice


@dataclass(frozen=True, slots=True)
class Bin:
    """The slices that one Spark task runs, one after the other."""

    slices: tuple[Slice, ...]
    predicted_s: float
    #: of a recorded wave: a name that no other bin in flight has, kept by whatever runs the bin
    #: again, so that a sink can shut an earlier attempt out; reused when the bin is done with
    fence: str = ""


@dataclass(frozen=True, slots=True)
class Wave:
    """The bins that one Spark job runs."""

    #: unique for ever: it names the effects of DataFrame handlers and the intent
    id: str
    use_case: str
    bins: tuple[Bin, ...]
    #: a slice still running after this many seconds yields between two portions
    budget_s: float

    @property
    def slices(self) -> Iterator[Slice]:
        """All slices, bin by bin."""
        return (piece for each in self.bins for piece in each.slices)

    def only(self, wanted: Callable[[Slice], bool]) -> Wave:
        """The wave with some of its slices alone; bins left empty are dropped."""
        bins = (replace(each, slices=tuple(filter(wanted, each.slices))) for each in self.bins)
        return replace(self, bins=tuple(each for each in bins if each.slices))
