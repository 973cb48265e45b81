"""What checkers found, told briefly.

A run that goes wrong goes wrong a thousand times, and nobody reads a thousand lines. So a checker
keeps everything and shows the number and the first few; it never raises, because what is allowed
under a guarantee is for the test to say.
"""

from __future__ import annotations

from dataclasses import dataclass

#: how many are named
NAMED = 5


@dataclass(frozen=True, slots=True)
class Report:
    """What one checker found; no findings is right."""

    #: what was looked for, such as ``broken chain``
    kind: str
    #: how many things were looked at, so that a test can tell that it tested anything
    checked: int
    findings: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        told = f"{len(self.findings)} {self.kind} of {self.checked} checked"
        if not self.findings:
            return told
        more = ", …" if len(self.findings) > NAMED else ""
        return f"{told} ({'; '.join(self.findings[:NAMED])}{more})"
