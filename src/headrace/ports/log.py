"""What is in a log, and what time it is: all that a planning turn asks about."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from headrace.model.lineage import Lineage
from headrace.model.places import Place, Places

#: a moment later than all that was written by now
STILL_TO_COME: Final = math.inf


class Clock(Protocol):
    """The only source of time. Called anywhere in the cycle; never in planning or policies."""

    def now_s(self) -> float:
        """Seconds since 1970; may jump. For showing and for comparing with record timestamps."""

    def monotonic_s(self) -> float:
        """Seconds since some start; never goes back. For durations, budgets and leases."""


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """What a log says of a topic."""

    #: new when the topic is made again under the same name
    topic_id: str
    #: names of its lanes, in order. One that was missing from every list for longer than
    #: `LIST_PATIENCE_S` (`policies/data_loss.py`) never comes back: it would be read again
    lanes: tuple[str, ...]
    #: of lanes that follow others: these, with their ends; a lane that is not listed any more is
    #: still its children's parent, and its end is None where nobody knows it by now. None goes from
    #: the list before those that it follows, nor comes to it before they did; but it may come long
    #: after these were read to their ends, and after others that follow the same ones
    parents: Lineage = field(default_factory=dict)
    #: of lanes: where they began, whatever retention took since, if their log knows that and its
    #: starts do not tell what is lost
    beginnings: Mapping[str, Place] = field(default_factory=dict)
    #: what is wrong with it that keeps nobody from reading it, and that a person has to see; empty:
    #: nothing is known
    trouble: str = ""


class Log(Protocol):
    """What is in a log, without reading a record.

    The log names its lanes, and nobody else makes names up: no two of them have one, whichever
    topics they are of. Called from one thread, beside the turns and for nearly each of them. Each
    call is one round of requests for all names given. What cannot be had at this moment is left out
    of the answer, lane by lane, so that one without a leader delays no other; and so is a name that
    the log did not give to any lane.

    Raises:
        BrokerUnavailable: no broker answered at all.
    """

    def of(self, topic: str) -> Log:
        """The log that has a topic of this name: this one, or one of those that it is made of.

        What is said below to be the same for ever is so of the lanes of one topic.
        """

    @property
    def places(self) -> Places:
        """What it says of two of its places; the same for ever."""

    @property
    def tells_ends(self) -> bool:
        """Whether it says where each of its lanes ends; the same for ever."""

    @property
    def tells_starts(self) -> bool:
        """Whether all before a lane's start was removed, so that who stands there lost something.

        Else its places have gaps, and the first that is left says nothing of them: where somebody
        stands before it, only reading tells whether anything is lost. The same for ever.
        """

    def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Id and lanes of each topic that exists; a topic that does not is left out."""

    def all_topics(self) -> Collection[str]:
        """Names of all topics that there are, of the log's own as well; for patterns."""

    def absent(self, names: Collection[str]) -> Collection[str]:
        """Topics that are surely not there.

        One of which nobody can tell now is left out, and so are all where no broker answers.
        """

    def end_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """The offset after the last record a ``read_committed`` reader may see.

        `OPEN` for a lane of which only reading tells that, or how much is before it; to say so must
        cost no request, as it is asked of a lane for each look that is taken at it.
        """

    def start_offsets(self, lanes: Collection[str]) -> dict[str, Place]:
        """The first offset that retention has left."""

    def offsets_at(self, lanes: Collection[str], timestamp_s: float) -> dict[str, Place]:
        """The first offset whose record is not older; the end offset where there is none.

        Where only reading tells the end that is a place from which on nothing older comes than is
        said, or `OPEN`, and nobody may begin there. `STILL_TO_COME` means all that comes from now
        on; it is asked for of lanes without a known end alone.
        """

    def doubt(self, lanes: Collection[str]) -> None:
        """Forget who leads these: the next offsets are of whom the cluster says does now."""

    def close(self) -> None:
        """Give up connections. Nothing is called after it."""
