"""Running waves on executors."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from headrace.model.receipts import Receipt, SliceError
from headrace.model.records import Deployment
from headrace.model.waves import Terms, Wave

#: what a use case is; the room that knows, ``headrace.use_cases``, is above this one
_UseCase_contra = TypeVar("_UseCase_contra", contravariant=True)


@dataclass(frozen=True, slots=True)
class WaveResult:
    """A wave that ended."""

    wave: Wave
    #: one for each slice, in no order; empty when the job itself failed
    receipts: tuple[Receipt, ...]
    seconds: float
    #: the job failed as a whole: positions must be read back before these lanes are planned again
    error: SliceError | None = None


@dataclass(frozen=True, slots=True)
class PackedCode:
    """A use case as executors are sent it, and its SHA-256, which takes as long as it is large."""

    code: bytes = field(repr=False)
    digest: str

    @classmethod
    def of(cls, code: bytes) -> PackedCode:
        """Code and what it is known by."""
        return cls(code, hashlib.sha256(code).hexdigest())


class Engine(Protocol[_UseCase_contra]):
    """Runs waves of use cases on executors.

    ``start`` never blocks; each started wave appears exactly once in ``finished``, whatever
    happens to it, and only when none of its tasks runs any more. Waves run at the same time.

    A driver calls it in its turns, so nothing but ``finished`` waits longer than a moment, and that
    no longer than it was told to: what the cluster does not say at once is as it was known last.
    """

    @property
    def slots(self) -> int:
        """Tasks that can run at once without waiting, as far as known now; at least 1.

        More may be started: they queue.
        """

    @property
    def executors(self) -> int:
        """Executors there are, as far as known now; what works in this process counts as one."""

    @property
    def ui_url(self) -> str:
        """Address of the engine's own pages; empty if it has none."""

    def packed(self, use_case: _UseCase_contra) -> PackedCode:
        """What executors need of a use case, for ``take``: slow, and runs code of the use case.

        Safe in any thread, beside everything else.

        Raises:
            ConfigError: the handler cannot be sent to executors. Code of the use case may raise
                anything else.
        """

    def take(
        self, use_case: _UseCase_contra, deployment: Deployment, code: PackedCode | None = None
    ) -> None:
        """Take a use case, or a new version of one, for the waves started from now on.

        A wave runs as the version taken last of those with its terms; one without terms as the
        version taken last of all. Waves that were started before end with the version they had.

        Args:
            use_case: the one whose name the waves have.
            deployment: its options, retries and time limit.
            code: what ``packed`` made of it; the call is then quick, and none of its code runs.
                None: that of the version taken last, if this is the same one under other terms;
                otherwise it is made now.
        """

    def forget(self, use_case: str, terms: Terms | None) -> None:
        """Let the version of a use case under some terms go; no wave with them starts any more.

        Waves that were started before end with it all the same. The version taken last of all stays
        for waves without terms; it goes by None. What is not known is let be.
        """

    def modules(self) -> frozenset[str]:
        """Names of the modules of all that waves in flight run, and waves to come may run.

        Safe in any thread.
        """

    def start(self, wave: Wave) -> None:
        """Run a wave of a use case that was taken.

        Raises:
            KeyError: it was not taken under the wave's terms, or was forgotten since.
        """

    def finished(self, timeout_s: float) -> list[WaveResult]:
        """Waves that ended since the last call; waits up to ``timeout_s`` for the first.

        Raises:
            EngineStopped: the engine has ended and no wave will come back.
        """

    def began(self, wave_id: str) -> bool | None:
        """Whether any task of a running wave has begun; False while it queues for an executor.

        None as long as nobody can say.
        """

    def cancel(self, wave_id: str) -> None:
        """End a wave soon, queueing or running; it comes back from ``finished`` with an error.

        Tasks die where they are, even in C code that never returns; those on this machine are dead
        when the wave comes back. Not so a handler of form
        ``wave`` while it computes in the driver itself: only its Spark jobs end. A wave that is
        not known, or has ended, is let be.
        """

    def resize(self, slots: int) -> None:
        """Have executors for ``slots`` tasks at once, where executors come and go; never blocks.

        Called about once a second with the number as it is then. ``slots`` of this engine follows
        when they are there, which takes seconds, or never where the number is fixed. What runs on
        those that are given back may end first.
        """

    def close(self) -> None:
        """Stop. Running waves are cancelled and come back.

        When this returns, what ran them on this machine is dead, or has been waited for so long
        that it was said in the log.
        """
