"""Reading a version from a folder: the module that the YAML names, and what it imports from there.

Local is what lies in the module's folder, in the package that it is in, or in the folder of the
YAML file. What is installed, and Python's own library, is not: executors must have that, and a roll
brings a new version of it.

Nothing is run here. So a module that only shows while code runs is refused by name, if it can be
seen at all: ``import_module("helper")``, or one that is compiled.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path

from headrace.errors import ConfigError
from headrace.versions.code import Code, LocalModule, parents
from headrace.versions.local_imports import Import, imports_of, parsed
from headrace.versions.paths import as_asked

_INIT = "__init__.py"
#: installed wherever a use case runs, and never part of one
_OURS = "headrace"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a module is, and where the local modules are that it imports."""

    #: as it was asked for, by whatever links
    path: Path
    #: as imports say it
    name: str
    roots: tuple[Path, ...]
    #: it is installed: local is its own package alone
    installed: bool = False

    @property
    def file(self) -> Path:
        """Where it lies now."""
        return self.path.resolve()

    def local(self, name: str) -> Path | None:
        """The file of a local module; None if there is none of that name."""
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or top == _OURS:
            return None
        if self.installed and top != self.name.partition(".")[0]:
            return None
        return next((file for root in self.roots if (file := _file_of(name, root))), None)

    def hidden(self, name: str) -> Path | None:
        """The file of the user's that Python's own module of this name hides here.

        A test that runs in its folder may well find it. Not so in a package, whose tests find that
        package by its name.
        """
        top = name.partition(".")[0]
        is_pythons = top in sys.stdlib_module_names and top not in sys.builtin_module_names
        if self.installed or not is_pythons:
            return None
        roots = [root for root in self.roots if not (root / _INIT).is_file()]
        return next((file for root in roots if (file := _file_of(top, root))), None)

    def compiled(self, name: str) -> Path | None:
        """The file of a local module that has no source."""
        wanted = [Path(*name.split(".")).with_suffix(suffix) for suffix in EXTENSION_SUFFIXES]
        places = [root / file for root in self.roots for file in wanted]
        return next((place for place in places if place.is_file()), None)


def find_module(name: str, folder: Path) -> Place:
    """The place of a module given as a path, relative to ``folder``, or as a dotted name.

    A dotted name is looked for in ``folder``, then where Python looks; nothing is imported.

    Raises:
        ConfigError: there is no such file or module.
    """
    if name.endswith(".py"):
        path = as_asked(folder / name)
        if not path.is_file():
            raise ConfigError(f"module {name}: there is no file {path}")
        _refuse_name(path)
        return _place(path, folder)
    if found := _file_of(name, folder):
        return Place(as_asked(found), name, _roots(folder))
    spec = _spec_of(name)
    if spec is None or spec.origin is None or not spec.has_location:
        there = f"./{name.replace('.', '/')}.py"
        raise ConfigError(f"module {name} is neither in {folder} nor installed; is it {there}?")
    path = Path(spec.origin)
    if name.partition(".")[0] == _OURS:
        return Place(path, path.stem, ())
    up = name.count(".") + (path.name == _INIT)
    return Place(path, name, (path.parents[up],), installed=True)


def _refuse_name(path: Path) -> None:
    """Refuse a file that would go wrong later, for its name alone."""
    if not _is_text(str(path)):
        raise ConfigError(
            f"module {str(path)!a}: its path is no UTF-8, so no store can keep it; rename it"
        )
    if path.name == f"{_OURS}.py":
        raise ConfigError(
            f"module {path}: a module named {_OURS} hides Headrace itself; give it another name"
        )


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:  # of bytes that are no UTF-8
        return False
    return True


def places_of(name: str, folder: Path) -> frozenset[Path]:
    """Where a module is that ``find_module`` finds, or was when it did, if it is gone."""
    if name.endswith(".py"):
        return _by_all_names([folder / name])
    here = _by_all_names(_files_of(name, folder))
    with suppress(ConfigError):
        return here | {find_module(name, folder).path}
    return here | {file for root in sys.path for file in _files_of(name, Path(root))}


def read_code(place: Place) -> Code:
    """The module as it is now, with every local module that it imports.

    Raises:
        ConfigError: a source cannot be read or is no Python, or a local module cannot be had.
    """
    found: dict[str, LocalModule] = {}
    foreign: dict[str, str] = {}
    waiting = {place.name: place.file, **dict(_with_parents(place.name, place))}
    folder = waiting[place.name].parent
    while waiting:
        name, path = waiting.popitem()
        found[name] = module = LocalModule(
            name,
            path.name == _INIT,
            Path(os.path.relpath(path, folder)).as_posix(),
            _source(path),
        )
        for given in _imports(module, path):
            new = {said: file for said, file in _local(given, place, path) if said not in found}
            waiting.update(new)
            others = [said for said in given.names if place.local(said) is None]
            foreign.update(dict.fromkeys(others, f"{path}, line {given.line}"))
    code = Code(place.name, tuple(found[name] for name in sorted(found)))
    _refuse_shared(foreign, code, frozenset(found))
    return code


def _refuse_shared(foreign: Mapping[str, str], code: Code, files: Collection[str]) -> None:
    """Refuse a package that is partly local and partly installed, which Python would join.

    Under the name of a version it has the local part alone, and what imports the other finds
    nothing there, at the first record perhaps.
    """
    for name, at in foreign.items():
        inside = next((above for above in reversed(parents(name)) if above in code.names), None)
        if name in code.names or inside is None or inside in files:
            continue
        ours = next(said for said in sorted(files) if said.startswith(f"{inside}."))
        raise ConfigError(
            f"{at}: {name} is no local module, and {inside} is a folder of local modules here "
            f"({ours}); one version cannot have both, so give the folder another name"
        )


def _imports(module: LocalModule, path: Path) -> list[Import]:
    tree = parsed(module.source, str(path))
    return list(imports_of(tree, str(path), module.name, package=module.package))


def _local(given: Import, place: Place, path: Path) -> Iterator[tuple[str, Path]]:
    """The local modules of an import, with the packages that they are in."""
    at = f"{path}, line {given.line}"
    for name in given.names:
        if place.local(name) is None:
            if hidden := place.hidden(name):
                raise ConfigError(
                    f"{at}: {name} is a module of Python's own, and that is what runs; "
                    f"{hidden} has its name and is no part of the version: rename it"
                )
            if found := place.compiled(name):
                raise ConfigError(
                    f"{at}: {name} is compiled ({found}) and cannot travel with the use case; "
                    "install it as a package, on executors too"
                )
            continue
        if given.listing:
            raise ConfigError(
                f"{at}: what is looked for in the folder of {name} is not seen, and does not "
                "travel with the use case; import each module of it by a statement"
            )
        if given.data and not place.installed:
            raise ConfigError(
                f"{at}: {name} is a local module, which a call does not find by this name; write "
                f"'import {name}', and {name}.__name__ in the call"
            )
        if given.dynamic:
            raise ConfigError(
                f"{at}: {name} is a local module, and imported by a call it is not seen; write "
                f"'import {name}', which may also stand inside a function"
            )
        yield from _with_parents(name, place)


def _with_parents(name: str, place: Place) -> Iterator[tuple[str, Path]]:
    for said in (*parents(name), name):
        if file := place.local(said):
            yield said, file


def _by_all_names(files: Iterable[Path]) -> frozenset[Path]:
    """These files as they are asked for, and as an earlier Headrace named them: behind links."""
    return frozenset(name for file in files for name in (as_asked(file), file.resolve()))


def _place(asked: Path, folder: Path) -> Place:
    path = asked.resolve()
    stem = path.stem if path.stem.isidentifier() else "use_cases"
    parts = [] if path.name == _INIT else [stem]
    root = path.parent
    while (root / _INIT).is_file() and root.name.isidentifier():
        parts.insert(0, root.name)
        root = root.parent
    if parts[0] == _OURS:
        return Place(asked, stem, ())
    beside = () if path.name == _INIT else (path.parent,)
    return Place(asked, ".".join(parts), _roots(*beside, root, folder))


def _roots(*folders: Path) -> tuple[Path, ...]:
    given = dict.fromkeys(folder.resolve() for folder in folders)
    places = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    return tuple(folder for folder in given if str(folder) not in places)


def _file_of(name: str, root: Path) -> Path | None:
    return next((file for file in _files_of(name, root) if file.is_file()), None)


def _files_of(name: str, root: Path) -> tuple[Path, ...]:
    """What a module's file would be."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return ()
    base = root.joinpath(*parts)
    return base / _INIT, base.with_name(f"{parts[-1]}.py")


def _spec_of(name: str) -> ModuleSpec | None:
    """Where an installed module is. ``find_spec`` would import the packages that it is in."""
    spec, path = None, None
    for said in (*parents(name), name):
        if spec is not None and path is None:
            return None
        found = (finder.find_spec(said, path) for finder in sys.meta_path)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def _source(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise ConfigError(f"module {path} cannot be read: {exc.strerror}") from exc
