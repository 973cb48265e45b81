"""API keys, and what was done through the doors they open."""

from __future__ import annotations

from typing import Protocol

from headrace.model.credentials import Change, Key, Role


class Keys(Protocol):
    """The API keys of all tenants and operators. Safe in several threads and processes.

    A store that does not answer raises ``StoreUnavailable``. Removing a tenant drops its keys, so
    that they do not open the door of a later tenant of the same name.
    """

    def add(self, key: Key) -> None:
        """Keep a new key.

        Raises:
            ConfigError: its prefix is taken, or its tenant was removed, or is no customer.
            UnknownName: its tenant was never added.
        """

    def find(self, prefix: str) -> Key | None:
        """The key of this prefix, working or not."""

    def every(self, tenant: str | None = None) -> list[Key]:
        """All keys, or those of one tenant, by time of creation; those that do not work too."""

    def succeed(self, prefix: str, successor: Key, at_s: float, *, overlap_s: float) -> None:
        """Keep a key that takes the place of another one, both or neither.

        The other one ends after ``overlap_s``, or sooner if it would by itself. Without an overlap
        it is revoked.

        Raises:
            ConfigError: it does not work any more, or the successor cannot be added.
            UnknownName: there is no such key.
        """

    def revoke(self, prefix: str, at_s: float, *, spare: Role | None = None) -> None:
        """End a key at once; one that was revoked stays as it is.

        Args:
            prefix: the key's.
            at_s: now.
            spare: a role of which one key at least has to go on working, whoever else revokes at
                the same moment; None: none has to.

        Raises:
            ConfigError: it is the last of that role that works.
            UnknownName: there is no such key.
        """

    def added_again_s(self, tenant: str) -> float | None:
        """Since when a name is that of the tenant who has it now, in seconds since 1970.

        None for a name that only one tenant ever had, and for one that nobody has. What others
        signed for the tenant before that time was signed for an earlier one.
        """

    def may_be_customer(self, name: str) -> bool:
        """Whether a credential can be of this name; the reserved one is nobody's.

        See ``model/everyone.py``.
        """


class Audit(Protocol):
    """What was changed through the control API, and by whom."""

    def note(self, *changes: Change) -> None:
        """Add lines, all of them or none, in this order; durable on return.

        Long texts are cut, and the oldest lines beyond ``CHANGES_KEPT`` are dropped. The id of
        a change is not looked at, nor is its generation, which is that of the tenant now.
        """

    def changes(
        self, *, tenant: str | None = None, before: int | None = None, limit: int = 100
    ) -> list[Change]:
        """Newest first: of one tenant or of all, with ids below ``before``."""
