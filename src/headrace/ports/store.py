"""What must be exact, for drivers and operators."""

from __future__ import annotations

from typing import Protocol

from headrace.ports.failures import Failures
from headrace.ports.keys import Audit, Keys
from headrace.ports.membership import Membership
from headrace.ports.positions import Positions
from headrace.ports.progress import Progress
from headrace.ports.registry import Registry
from headrace.ports.schema_subjects import SchemaSubjects
from headrace.ports.state import KeptState
from headrace.ports.statistics import Statistics


class Store(Protocol):
    """What must be exact, part by part: who needs one part only is given only that.

    Every method of every part is one transaction, durable on return, and safe from several
    processes and threads at once. Unknown names raise ``UnknownName``; a store that does not answer
    raises ``StoreUnavailable``.
    """

    @property
    def registry(self) -> Registry:
        """Tenants, streams and deployments."""

    @property
    def membership(self) -> Membership:
        """Drivers, and the streams they hold."""

    @property
    def progress(self) -> Progress:
        """Where lanes are by decision, and waves written down."""

    @property
    def failures(self) -> Failures:
        """Failures that are kept."""

    @property
    def positions(self) -> Positions:
        """The compare-and-set of positions."""

    @property
    def kept_state(self) -> KeptState:
        """State of keys, to be looked at."""

    @property
    def keys(self) -> Keys:
        """The API keys."""

    @property
    def audit(self) -> Audit:
        """What was changed by HTTP, and by whom."""

    @property
    def statistics(self) -> Statistics:
        """What drivers tell of themselves: figures for people."""

    @property
    def schema_subjects(self) -> SchemaSubjects:
        """Schemas that teams agree on: what a schema registry keeps."""

    def revision(self) -> int:
        """Grows with every change made by an operator, not with commits; asked each turn."""

    def seal_key(self) -> bytes:
        """The random key that seals records sent back; the same for all who open this store."""

    def close(self) -> None:
        """Give up connections."""
