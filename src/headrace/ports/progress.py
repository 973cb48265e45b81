"""How far lanes came, and what is under way in them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.model.lineage import Lineage
from headrace.model.places import Place
from headrace.model.records import Failure, LaneStart, Move
from headrace.model.streams import Position, Slice, StreamId
from headrace.model.waves import Wave


class Finished(NamedTuple):
    """What became of a recorded wave."""

    #: whether each position was moved, in order
    moved: list[bool]
    #: what of it is still written down in this driver's name: to be run again
    left: list[Wave]


class Progress(Protocol):
    """Positions by decision, and the waves written down before they run; a part of ``Store``.

    Moves by work done are ``Positions``, which tasks have too.
    """

    def load_positions(self, streams: Collection[StreamId] | None = None) -> list[Position]:
        """Committed positions, of all streams or of some."""

    def start_lanes(self, starts: Collection[LaneStart]) -> None:
        """Give lanes that have no position their first one, under their streams' epochs.

        Remembers the topic ids. A lane that has a position keeps it. Where the stream is in
        another topic than ``known_id`` by now, nothing is done: whoever asks has yet to hear of it.
        Neither is it where it is under another epoch than ``epoch`` says, or has begun and the
        places are those of a stream that has not.

        Without a topic id the stream begins without lanes, as its topic is not there, and that is
        remembered: it has begun from then on, until it is removed and added again.

        What lanes follow is remembered in the same transaction: there is no moment in which one is
        there and looks open. A parent without a position is not waited for; and a lane is not
        started while it has one with a position and without an end, as nobody has decided yet.
        """

    def forget_lanes(
        self,
        stream: StreamId,
        names: Collection[str],
        epoch: int,
        topics: Collection[str] = (),
    ) -> bool:
        """Forget lanes that are done and that their log does not list any more.

        Their children wait for them no longer, and remember that they did. ``topics``, of several
        that the stream reads, are forgotten with them: should there be some of these names, they
        are new, and their lanes deeper than those were. False, and nothing done, if the stream is
        under another epoch.
        """

    def seek(
        self,
        stream: StreamId,
        offsets: Mapping[str, Place],
        topic_id: str | None = None,
        parents: Lineage | None = None,
        gone: Collection[str] = (),
        *,
        forget_state: bool = False,
    ) -> None:
        """Set positions, whatever they were, under a new epoch: nothing in flight will commit.

        Also a slice that begins where its lane is sent to is refused, and so are those of the
        lanes that stay. The holder stays too, and takes the stream anew.
        A seek is the decision that a topic made again asks for: ``topic_id`` is that of the topic
        in which the offsets were looked up; None takes the one that is there at the next look.
        Open failures of these lanes become ``RETRIED``: the lane goes on from where it was sent.
        A recorded slice whose lane is sent to its beginning, or stays there, is still to do; all
        others of the stream are forgotten. With another topic all are, and so are those of merged
        lanes where one lane was elsewhere, or is gone: what it reads next may belong before them.
        Lanes get deeper than any was, but for those of a rerun.

        Args:
            stream: whose lanes they are.
            offsets: where lanes go on; one that has no position gets it, be it a bucket that is
                missing among those of its own division.
            topic_id: see above.
            parents: what lanes of the stream follow from now on: those that are in ``offsets`` or
                here. What others follow stays as it is, as they may have come since somebody looked
                and decided; None leaves that of all.
            gone: lanes to forget, as ``forget_lanes`` does.
            forget_state: what is kept of keys of these lanes is forgotten. A lane that goes on
                where it stands, or later, needs it not: what it keeps stays that of the records
                that were handled.

        Raises:
            ConfigError: the stream was removed; or a lane that keeps state is sent back with it, or
                a part of what shares its state without.
            Temporary: a lane of the log is divided otherwise by now than the offsets say.
        """

    def skip_lost(
        self,
        stream: StreamId,
        moves: Sequence[Move],
        failures: Sequence[Failure],
        topic_id: str,
        parents: Lineage | None = None,
        gone: Collection[str] = (),
    ) -> int | None:
        """Let lanes of a stream go on behind what Kafka no longer has: all of them or none.

        Who decides says by moves and failures alike under which epoch; where all that was lost is
        of lanes that nobody ever began, no lane moves, and there are failures alone.
        Together with the moves the failures are kept as ``SKIPPED``, open ones of these lanes
        become it, as their records are gone, the topic's id is remembered, and the epoch is raised,
        so that whatever still runs of the old log is refused. What was recorded of the stream is
        forgotten as by ``seek``, of merged lanes if one is sent back. ``parents`` and ``gone`` are
        as there. Returns the new epoch. None, and nothing done, if a position is elsewhere, one of
        the epochs is another, there is neither a move nor a failure, or the stream was removed.
        Raises the revision.
        """

    def pass_over(
        self, stream: StreamId, moves: Sequence[Move], failures: Sequence[Failure]
    ) -> int | None:
        """Let lanes of a stream that was left alone go on behind what is too old: all, or none.

        As ``skip_lost`` within the topic that the stream is of, and no lane goes back. That it was
        left alone is forgotten, which ``skip_lost`` leaves as it is: what a log lost says nothing
        about what of the rest is too old.
        """

    def stay(self, stream: StreamId, epoch: int) -> bool:
        """Let a stream that was left alone go on where it is; that it was is forgotten.

        False, and nothing done, if it is under another epoch.
        """

    def record_intent(self, wave: Wave, driver: str | None = None) -> bool:
        """Write the wave down before it runs, in the name of the driver that runs it.

        False, and nothing done, if one of its streams is not held by this driver under the epoch
        of its slices, as somebody else has it, and runs other slices; or if one was removed: who
        sees that, and that nothing of it is written down, knows that nothing will be.
        """

    def take_turn(self, going: Wave, tenants: Sequence[str], driver: str) -> bool:
        """Write down for which tenants of a recorded wave its next call is; empty: for all of them.

        ``going`` is what that call gets. Whoever inherits the wave begins with these tenants: what
        writes under the id of a wave replaces all that stands there, and its last call may be
        asleep and write yet. False, and nothing done, if no such wave is written down in the
        driver's name, or it does not hold a stream of the call under the epoch of its slices:
        whoever was started under its name has said whose turn it is.
        """

    def finish_intent(
        self,
        wave_id: str,
        moves: Sequence[Move],
        driver: str | None = None,
        *,
        over: Collection[Slice] = (),
        nothing: Collection[Slice] = (),
        parts: Sequence[Wave] = (),
    ) -> Finished:
        """Move positions, as ``Positions.advance``, and keep what is still to do.

        A slice of the wave stays written down until its lane has moved on from its beginning:
        whoever holds the stream then has to know what may have run. The same call again, as after
        a lost answer, moves nothing and tells the same ``left``. Of a wave that is another
        driver's by now nothing is changed but the positions, and that its id is taken.

        Where a lane of a wave has moved that writes under its id, the id is taken, and what is left
        under it says so from then on: run again so, it would replace what stands there.

        Args:
            wave_id: the wave's; it may be forgotten already.
            moves: what was done of it, and whatever else is to be moved with it.
            driver: in whose name it is written down; None is anybody's.
            over: slices that came to nothing and leave no effect; they are forgotten where the
                lane is still under their epoch, with what was read of them.
            nothing: open slices in which there was nothing when they were read; they are forgotten
                as well, but not what another attempt may have found there.
            parts: waves that some of its slices are to be written down as from now on; believed
                under the epochs that the lanes have, and otherwise left in the wave. A slice that
                is not written down in the wave any more is left out of them.
        """

    def pending_intents(self, driver: str | None = None) -> list[Wave]:
        """Waves written down and not finished, oldest first.

        Of all drivers, or what one wrote down or inherited. The latter waits for whoever divides
        one of these at that moment: a driver of the same name that was killed may have its last
        word under way. Once it holds the streams anew nobody else does.
        """
