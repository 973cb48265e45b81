"""How the registry says no: the HTTP status first, then the code that Confluent's clients know.

What passes by itself is 503 with code 50001 or 50002, so that clients try again; what is not
there is 404, what is refused for what it says is 409 or 422.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.errors import HeadraceError


class Refusal(HeadraceError):
    """A request that is refused."""

    def __init__(self, status: int, code: int, message: str) -> None:
        """Take the HTTP status, the code of Confluent's, and a sentence for people."""
        super().__init__(message)
        self.status, self.code = status, code


class Incompatible(Refusal):
    """A schema that breaks a version before it."""

    def __init__(self, subject: str, faults: Sequence[str]) -> None:
        """Take what it breaks, each a sentence."""
        told = "; ".join(faults)
        super().__init__(
            409,
            409,
            "Schema being registered is incompatible with an earlier schema for subject "
            f"'{subject}': {told}",
        )
        self.faults = faults


def no_subject(subject: str) -> Refusal:
    """Nobody registered anything there, or it is not the caller's to see."""
    return Refusal(404, 40401, f"Subject '{subject}' not found.")


def no_version(version: object) -> Refusal:
    """The subject has no such version."""
    return Refusal(404, 40402, f"Version {version} not found.")


def no_schema(what: object = "") -> Refusal:
    """There is no such schema."""
    return Refusal(404, 40403, f"Schema {what} not found" if what else "Schema not found")


def softly_deleted(subject: str, version: int | None = None) -> Refusal:
    """It is deleted already, and can only be deleted for good."""
    if version is None:
        return Refusal(
            404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete it."
        )
    what = f"Subject '{subject}' Version {version}"
    return Refusal(404, 40406, f"{what} was soft deleted. Set permanent=true to delete it.")


def not_softly_deleted(subject: str, version: int | None = None) -> Refusal:
    """It has to be deleted softly before it is deleted for good."""
    if version is None:
        return Refusal(404, 40405, f"Subject '{subject}' was not deleted first; delete it softly.")
    what = f"Subject '{subject}' Version {version}"
    return Refusal(404, 40407, f"{what} was not deleted first; delete it softly.")


def bad_schema(why: str) -> Refusal:
    """A text is no schema."""
    return Refusal(422, 42201, f"Invalid schema: {why}")


def bad_version(version: str) -> Refusal:
    """A version is a number from 1 on, or ``latest``."""
    return Refusal(
        422,
        42202,
        f"The specified version '{version[:40]}' is not a valid version id; allowed are numbers "
        "from 1 on, -1 and 'latest'",
    )


def not_permitted(why: str) -> Refusal:
    """The mode of the subject does not let it happen."""
    return Refusal(422, 42205, why)


def full(why: str) -> Refusal:
    """There is no room for one more."""
    return Refusal(
        422,
        42205,
        f"No more is kept: {why}. Delete versions for good that nobody needs, or ask an operator "
        "for more in the section schema_registry of the settings",
    )


def full_of_settings(why: str) -> Refusal:
    """There is no room for the settings of one more subject."""
    return Refusal(
        422,
        42205,
        f"No more is set: {why}. Take back with DELETE /config/{{subject}} what nobody needs, "
        "or ask an operator for more in the section schema_registry of the settings",
    )


def bad_subject(why: str) -> Refusal:
    """A name that no subject can have."""
    return Refusal(422, 42208, f"Invalid subject: {why}")


def unknown_field(names: str) -> Refusal:
    """A request says something that would be dropped in silence."""
    return Refusal(
        422,
        422,
        f"this registry does not keep {names}, and drops nothing in silence: leave it away, or "
        "point at a registry that has it",
    )


def denied(why: str) -> Refusal:
    """The caller has not the right."""
    return Refusal(403, 40301, why)
