"""How much of schemas a tenant may have, and how much one subject.

Whoever sends records for a tenant may register schemas, a thousand an hour or a megabyte at a time,
and the store is everybody's. So a tenant has a room, for all subjects that it registers under
together, and a key that is for some subjects one for these; a subject has one as well, whoever
registers, so that a build that runs wild stops at its own. The store counts, in the moment that it
keeps a version.

What is deleted softly still takes room, since it is still there.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.ports.schema_subjects import Room
from headrace.schema_registry.wanted import Sight


@dataclass(frozen=True, slots=True)
class RoomLimits:
    """What may be kept."""

    tenant_bytes: int = 64 * 1024**2
    tenant_versions: int = 10_000
    subject_bytes: int = 256 * 1024**2
    subject_versions: int = 10_000

    def of(self, subject: str, sight: Sight) -> tuple[Room, ...]:
        """The rooms that a version has to fit in which somebody registers."""
        own = Room("subject", subject, self.subject_bytes, self.subject_versions)
        if sight.pattern is None:
            return own, *self.of_settings(sight)
        most = (self.tenant_bytes, self.tenant_versions)
        return own, Room("subjects", sight.pattern, *most, pattern=sight.pattern)

    def of_settings(self, sight: Sight) -> tuple[Room, ...]:
        """The rooms that a subject has to fit in for which somebody sets something."""
        if sight.tenant is None:
            return ()
        topics = sight.sent_topics()
        return (Room("tenant", sight.tenant, self.tenant_bytes, self.tenant_versions, topics),)
