"""Paths as they were asked for, and what stands behind them.

Many services are released as ``current -> release-7``, and the link swings. Whoever asks for
``current/use_cases.py`` means what lies there whenever it is looked at. So what is remembered is
the path that was asked for, with its links; what lies behind them is looked up each time.
"""

from __future__ import annotations

import os
from pathlib import Path


def as_asked(path: Path) -> Path:
    """The absolute path, with the links that it was asked for by.

    A way up (``..``) is resolved first, as it leads from where a link leads to.
    """
    whole = _here() / path
    if ".." in whole.parts:
        return whole.resolve()
    return whole


def folder_of_file(path: Path) -> Path:
    """The folder of a file, by the links that it was asked for by; of a link, its target's."""
    if not path.is_symlink():
        return path.parent
    target = path.parent / path.readlink()
    return target.resolve().parent if ".." in target.parts or target.is_symlink() else target.parent


def link_that_takes_along(file: Path, folder: Path) -> Path | None:
    """The link on the way to a file that leads to another folder, when it swings, than ``folder``.

    Links right below the root are the system's own, such as ``/tmp`` on macOS, and do not swing.
    """
    asked, inside = as_asked(file), folder.resolve()
    for link in (*reversed(asked.parents), asked):
        if link.parent == link.parent.parent or not link.is_symlink():
            continue
        target = link.resolve()
        release = target if target.is_dir() else target.parent
        if release != link.parent.resolve() and inside.is_relative_to(release):
            return link
    return None


def _here() -> Path:
    """The current folder as a shell names it, if that is the one."""
    said, here = Path(os.environ.get("PWD", "")), Path.cwd()
    try:
        return said if said.is_absolute() and said.samefile(here) else here
    except OSError:
        return here
