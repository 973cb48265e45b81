"""Whether a tenant's record ever came to another tenant.

The worst that can happen between customers is quiet: a row with the right form and another one's
content. It can go wrong at three places, so three names are compared for each effect: whose the
sink says it is, whose slice it was, and whose topic the record is in. What the content means is
not looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.testing.findings import Report
from headrace.testing.ledger import Place


@dataclass(slots=True)
class Isolation:
    """Is told whose each topic is, and of every effect."""

    _owners: dict[str, str] = field(default_factory=dict)
    _found: list[str] = field(default_factory=list)
    _effects: int = 0

    def topic(self, tenant: str, topic: str) -> None:
        """Say whose topic it is."""
        self._owners[topic] = tenant

    def wrote(self, tenant: str, slice_of: str, place: Place) -> None:
        """An effect was made.

        Args:
            tenant: whose it is for the sink.
            slice_of: whose slice was being run.
            place: where its record is.
        """
        self._effects += 1
        owner = self._owners.get(place.topic)
        if not tenant == slice_of == owner:
            whose = "nobody's" if owner is None else f"{owner}'s"
            self._found.append(f"{whose} {place} in a slice of {slice_of}, written for {tenant}")

    def report(self) -> Report:
        """What was found until now."""
        return Report("foreign effects", self._effects, tuple(self._found))
