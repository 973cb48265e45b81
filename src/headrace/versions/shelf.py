"""Where the sources of deployed versions are kept: a folder, with one for each digest.

What lies in a user's folder is the next version, or half of it. What was deployed has to be there
when a driver starts again, so deploying keeps a copy. The store names a version by its digest, and
a copy is taken only if it still has this digest: whoever can write to one of the two alone can run
nothing.

Several stores may share a shelf, as drivers on several machines do. Each leaves a mark at what it
has deployed, and a version without marks is removed after a week.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError
from headrace.versions.code import Code, LocalModule

#: a version that no store has deployed any more stays so long
KEPT_S = 7 * 86_400.0
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: left by a process that was killed over it
_HALF_MADE = re.compile(r"\.[0-9a-f]{32}")
_MANIFEST = "manifest.json"
_MARKS = "deployed-by"


@dataclass(frozen=True, slots=True)
class Shelf:
    """The folder."""

    folder: Path

    def keep(self, code: Code, by: str) -> None:
        """Keep a version, which a store is about to deploy.

        Args:
            code: the version.
            by: what tells the store from others.

        Raises:
            ConfigError: the folder cannot be written to.
        """
        try:
            if self._found(code.digest) != code:
                self._write(code)
            mark = self.folder / code.digest / _MARKS / by
            mark.parent.mkdir(exist_ok=True)
            mark.touch()
        except OSError as exc:
            raise ConfigError(
                f"what is deployed is kept in {self.folder}, which cannot be written to: "
                f"{exc.strerror}; name another folder by 'versions:' in the YAML file, one that "
                "all drivers see"
            ) from exc

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever deployed from here, or all of it is long over."""
        places = self.folder.iterdir() if self.folder.is_dir() else ()
        return not any(_DIGEST.fullmatch(place.name) for place in places)

    def take(self, digest: str) -> Code | None:
        """The version of a digest; None if there is no copy of it.

        Raises:
            ConfigError: there is one, but it is not what was deployed.
        """
        try:
            code = self._found(digest)
        except OSError as exc:
            raise ConfigError(f"{exc.filename} cannot be read: {exc.strerror}") from exc
        if code is not None and code.digest != digest:
            raise ConfigError(
                f"{self.folder / digest} is not what was deployed: somebody has changed it; "
                "'headrace use-cases deploy' makes a new copy"
            )
        return code

    def sweep(self, in_use: Collection[str], by: str) -> None:
        """Remove what no store has deployed any more, and what was never whole, a week later.

        Args:
            in_use: digests that this store has deployed.
            by: what tells the store from others.
        """
        places = self.folder.iterdir() if self.folder.is_dir() else ()
        for place in places:
            with suppress(OSError):  # another one sweeps too, or may do what we may not
                if _DIGEST.fullmatch(place.name) and place.name not in in_use:
                    _unmark(place, by)
                elif _HALF_MADE.fullmatch(place.name):
                    _remove_if_old(place, place)

    def _found(self, digest: str) -> Code | None:
        # A digest comes from the store, and must not lead out of the folder.
        place = self.folder / digest
        if not _DIGEST.fullmatch(digest) or not place.is_dir():
            return None
        try:
            told = json.loads((place / _MANIFEST).read_bytes())
            return _code(place, told)
        except (ValueError, KeyError, TypeError, FileNotFoundError):
            return Code("", ())  # which has another digest

    def _write(self, code: Code) -> None:
        """Make the copy whole before it is seen under its name."""
        place = self.folder / code.digest
        made = self.folder / f".{uuid.uuid4().hex}"  # as ``_HALF_MADE`` has it
        made.mkdir(parents=True)
        try:
            for module in code.modules:
                (made / f"{module.name}.py").write_bytes(module.source)
            (made / _MANIFEST).write_bytes(code.manifest)
            if place.exists():  # and is not what it should be
                os.rename(place, made / "before")
            os.rename(made, place)
        except OSError:
            if self._found(code.digest) != code:  # else somebody kept the same just now
                raise
        finally:
            for rest in (made, place / "before"):
                shutil.rmtree(rest, ignore_errors=True)


def _code(place: Path, told: Mapping[str, Any]) -> Code:
    """The version as its manifest tells it."""
    code = Code(str(told["main"]), tuple(_module(place, module) for module in told["modules"]))
    if len(code.modules) == 1:
        # Its digest is of its source alone; and beside ``__file__`` it looks for data.
        (only,) = code.modules
        if only.file != Path(only.file).name or only.name != code.main:
            raise ValueError(only.file)
    return code


def _module(place: Path, told: Mapping[str, object]) -> LocalModule:
    name = str(told["name"])
    if not name.replace(".", "").isidentifier():  # a path would lead elsewhere
        raise ValueError(name)
    source = (place / f"{name}.py").read_bytes()
    return LocalModule(name, bool(told["package"]), str(told["file"]), source)


def _unmark(place: Path, by: str) -> None:
    """Take a store's mark away, and in the end what has none."""
    marks = place / _MARKS
    if not marks.is_dir():  # who kept it was killed before it was deployed
        _remove_if_old(place, place)
        return
    (marks / by).unlink(missing_ok=True)
    if not any(marks.iterdir()):
        _remove_if_old(place, marks)


def _remove_if_old(place: Path, touched: Path) -> None:
    """Remove a folder if ``touched``, in it, was not for long."""
    if time.time() - touched.stat().st_mtime > KEPT_S:
        shutil.rmtree(place, ignore_errors=True)
