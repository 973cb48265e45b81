"""Modules that a version imports from a folder that is neither local nor installed.

A module may put a folder on ``sys.path`` and import from there. Reading (`reading.py`) does not
follow that, so what lies there would be no part of the version: a change in it is no new version,
and Python keeps what it imported first, so that after the next deploy some processes run the old
one and some the new one, in silence. So whoever has imported a version to check it asks here, and
such a module is refused by its name. So is a file that is run by a call, such as those with
``spec_from_file_location``, which need not leave anything in ``sys.modules``.

Installed is what the environment has, and what lay on Python's path before. Of what ``PYTHONPATH``
names, a folder below that of the use cases is none: that is somebody's source, not an installation.

What a function imports by a call, or by a path that it makes itself, is not seen. Nor is code of
a file that is not called ``*.py``, or text that is given to ``exec``.
"""

from __future__ import annotations

import importlib.util
import os
import site
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError
from headrace.versions.code import Code
from headrace.versions.loading import PREFIX, is_of_version, origin_of
from headrace.versions.local_imports import imports_of, parsed

_LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")
#: of any environment, such as one beside the use case that ``PYTHONPATH`` names
_LIBRARY_FOLDERS = frozenset({"site-packages", "dist-packages"})


def refuse_elsewhere(
    code: Code, folder: Path, path_before: Sequence[str], ran: Collection[str]
) -> None:
    """Refuse a version that was imported with something from elsewhere.

    Args:
        code: the version, whose main module is imported.
        folder: where that was read.
        path_before: ``sys.path`` as it was before.
        ran: files of which code was run meanwhile, as the code names them.

    Raises:
        ConfigError: what it was, and what to do.
    """
    is_installed, here = _installed(folder.resolve(), path_before), folder.resolve()
    apart = (
        "it would not be part of the version, and after a deploy old and new would run side by side"
    )
    hooked: set[Path] = set()
    for name, file in _imported(code):
        if is_installed(file):
            continue
        if not _is_hooked(name):
            raise ConfigError(
                f"{name} is imported from {file}, which is neither installed nor beside the use "
                f"case: {apart}; leave sys.path alone: {_advice(name, file, here)}"
            )
        hooked.add(file.parent)
    for file in _by_call(ran, code, folder):
        if not is_installed(file) and hooked.isdisjoint(file.parents):
            raise ConfigError(
                f"{file} is run by a call, where it is not seen: {apart}; "
                f"{_advice(file.stem, file, here)}"
            )


def _installed(here: Path, path_before: Sequence[str]) -> Callable[[Path], bool]:
    """What tells whether a file is installed, for use cases in the folder ``here``."""
    libraries = _with_links(_environment())
    others = _with_links(filter(None, path_before))
    sources = _with_links(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    # Whoever installs a folder below the use case means it; not so who has it all on the path.
    below = {root for root in others - sources if not here.is_relative_to(root)}

    def is_installed(file: Path) -> bool:
        # A package may be a link into a store of packages.
        places = (file, file.resolve())
        roots = libraries | (below if file.resolve().is_relative_to(here) else others)
        if any(place.is_relative_to(root) for place in places for root in roots):
            return True
        return not _LIBRARY_FOLDERS.isdisjoint(file.parts)

    return is_installed


def refuse_late(code: Code, path_before: Sequence[str]) -> None:
    """Refuse a version whose functions import something by a path that its import alone has.

    Args:
        code: the version, whose main module is imported.
        path_before: ``sys.path`` as it was before, and as it is put back.

    Raises:
        ConfigError: what it was, and what to do.
    """
    for name in sorted(_tops_said(code) - sys.modules.keys()):
        file = _would_be(name) if _may_be_elsewhere(name) else None
        if file is None or file == _would_be(name, path_before):
            continue
        raise ConfigError(
            f"{name} is imported by a function from {file}, a place that the module adds to "
            "sys.path: that is put back when the module is imported; import it at the top of the "
            "module, too"
        )


def _advice(name: str, file: Path, folder: Path) -> str:
    install = "install it as a package, on executors too"
    file = file.resolve()
    if not file.is_relative_to(folder):
        return f"{install}, or move it beside the use case"
    parts = [*file.relative_to(folder).parent.parts, name.rpartition(".")[2]]
    if not all(part.isidentifier() for part in parts):
        return f"{install}, or move it beside the use case"
    return f"write 'import {'.'.join(parts)}', or {install}"


def _imported(code: Code) -> Iterator[tuple[str, Path]]:
    """What is imported, and what functions of the version will import, with its file."""
    for name, module in list(sys.modules.items()):
        # Some are no modules, and some say of a file what is none.
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str) and _is_there(file) and _may_be_elsewhere(name):
            place = Path(os.path.abspath(file))
            if not name.startswith(PREFIX):
                yield name, place
            elif not is_of_version(module):
                # A local package has taken in a folder that is no part of the version.
                yield name.partition(".")[2], place
    for name in sorted(_tops_said(code) - sys.modules.keys()):
        if _may_be_elsewhere(name) and (file := _would_be(name)):
            yield name, file


def _by_call(ran: Collection[str], code: Code, folder: Path) -> list[Path]:
    """Files of Python that were run, and are of no module that was imported."""
    imported = {getattr(module, "__dict__", {}).get("__file__") for module in sys.modules.values()}
    known = {os.path.realpath(file) for file in imported if isinstance(file, str)}
    known |= {os.path.realpath(origin_of(module, folder)) for module in code.modules}
    # One of another ending may be a page that a library compiles under its own name.
    files = {os.path.abspath(file) for file in ran if file.endswith(".py")}
    files = {file for file in files if _is_there(file)}
    return sorted(Path(file) for file in files if os.path.realpath(file) not in known)


def _is_there(file: str) -> bool:
    """Whether it is a file, or in one, as what is imported from a zip."""
    place = Path(file)
    return place.is_file() or (place.is_absolute() and any(up.is_file() for up in place.parents))


def _may_be_elsewhere(name: str) -> bool:
    top = name.partition(".")[0]
    return top != "headrace" and not top.startswith("__")


def _tops_said(code: Code) -> set[str]:
    return {
        said.partition(".")[0]
        for module in code.modules
        for given in imports_of(
            parsed(module.source, module.file), module.file, module.name, package=module.package
        )
        for said in given.names
    } - {name.partition(".")[0] for name in code.names}


def _would_be(name: str, path: Sequence[str] | None = None) -> Path | None:
    """Where it would be imported from, by ``sys.path`` or this one."""
    searched = sys.path
    try:
        sys.path = searched if path is None else list(path)
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    finally:
        sys.path = searched
    if spec is None:
        return None
    places = [spec.origin] if spec.has_location else list(spec.submodule_search_locations or ())
    return Path(os.path.abspath(places[0])) if places and places[0] else None


def _is_hooked(name: str) -> bool:
    """Whether it was found by something else than a path: how packages are installed editable."""
    parts, path = name.split("."), None
    for known in range(1, len(parts) + 1):
        package = ".".join(parts[:known])
        found = PathFinder.find_spec(package, path)
        if found is None:
            return any(_finds(finder, package) for finder in sys.meta_path)
        if found.has_location:
            return False
        # Of a namespace each package may be installed by itself.
        path = getattr(sys.modules.get(package), "__path__", None)
    return False


def _finds(finder: Any, name: str) -> bool:
    with suppress(Exception):  # somebody's own
        return finder.find_spec(name, None) is not None
    return False


def _environment() -> Iterator[str]:
    yield from (sysconfig.get_path(name) for name in _LIBRARIES)
    yield from (*site.getsitepackages(), site.getusersitepackages())


def _with_links(roots: Iterable[str]) -> set[Path]:
    return {
        Path(place) for root in roots for place in (os.path.abspath(root), os.path.realpath(root))
    }
