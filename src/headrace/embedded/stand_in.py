"""The user that runs a server which refuses to run as root.

In a container everything is root, and some servers, rightly, will not be. So their processes are
started as a user without rights, and what that user has to reach is looked at before: a folder that
is closed to it would end in a page of somebody else's errors.

No right of a folder is changed here; that is for its owner to do.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import ServerError

#: the first of these that there is
_NAMES = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class StandIn:
    """Who runs a server for root."""

    name: str
    uid: int
    gid: int

    def refuse_closed(self, folder: Path, server: str) -> None:
        """Make sure that it can get to a folder, as who runs ``server``.

        Raises:
            ServerError: the folder, or one above it, is closed to it.
        """
        closed = self.closed_above(folder)
        if closed is not None:
            raise ServerError(
                f"{closed} is closed to the user {self.name}, who runs {server} where Headrace "
                f"runs as root and refuses to be it: choose a folder outside {closed}, or run "
                "Headrace as another user"
            )

    def closed_above(self, folder: Path) -> Path | None:
        """The first folder, on the way to this one, that it may not enter."""
        way = (*reversed(folder.parents), folder)
        return next((path for path in way if not self._may_enter(path.stat())), None)

    def _may_enter(self, found: os.stat_result) -> bool:
        if found.st_uid == self.uid:
            return bool(found.st_mode & stat.S_IXUSR)
        if found.st_gid == self.gid:
            return bool(found.st_mode & stat.S_IXGRP)
        return bool(found.st_mode & stat.S_IXOTH)


def stand_in(server: str, folder: Path) -> StandIn | None:
    """Who is to run a server in a folder that refuses root; None where we are not root.

    Raises:
        ServerError: we are root, and there is no user to take its place, or the folder is closed
            to it.
    """
    if os.geteuid() != 0:
        return None
    for name in _NAMES:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        user = StandIn(name, found.pw_uid, found.pw_gid)
        user.refuse_closed(folder, server)
        return user
    raise ServerError(
        f"{server} refuses to run as root, and there is no user {' or '.join(_NAMES)} to run it: "
        "add one, or run Headrace as another user"
    )


@contextmanager
def handed_over(path: Path, text: str, user: StandIn | None) -> Iterator[Path]:
    """A file with a secret that ``user``, or we, can read, and nobody else; gone afterwards."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            if user is not None:
                os.fchown(file.fileno(), user.uid, user.gid)
            file.write(text)
        yield path
    finally:
        path.unlink(missing_ok=True)
