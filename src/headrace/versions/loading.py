"""Importing a version beside others, so that waves that run keep theirs.

A plain ``import`` answers with the first version for ever, and leaves helpers where the next
version finds them. So the modules of a version are imported from its sources, never from a folder,
each under a name that carries the digest and the folder. ``__file__`` is the place where a source
was read: data beside a module is found as before, but is no part of the version. So equal sources
of two folders are imported twice: what they read beside themselves may differ.

Workers import a version the same way (`spark/shipping.py`).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.resources.readers import FileReader
from pathlib import Path
from types import ModuleType

from headrace.errors import AskedToEnd, ConfigError, text_of
from headrace.use_cases import UseCase
from headrace.versions.code import Code, LocalModule, sha256
from headrace.versions.computed import NO_VALUES, lay_over, plain_values
from headrace.versions.local_imports import parsed, with_private_names
from headrace.versions.paths import folder_of_file

PREFIX = "headrace_version_"


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """The use cases of a version."""

    path: Path
    code: Code
    use_cases: dict[str, UseCase]


def load_code(code: Code, path: Path) -> LoadedModule:
    """Import a version and collect what ``@use_case`` made in its main module.

    Args:
        code: the version.
        path: where its main module was read.

    Raises:
        ConfigError: it does not import, holds no use case, or two of the same name.
    """
    prefix = make_importable(code, folder_of_file(path))
    try:
        module = main_module(code, prefix)
    except (KeyboardInterrupt, AskedToEnd):
        raise
    except BaseException as exc:  # a module may raise anything, SystemExit too
        raise ConfigError(_refusal(exc, code, path, prefix)) from exc
    _computed.setdefault(prefix, plain_values(code, module))
    found = use_cases_in(module)
    if not found:
        raise ConfigError(f"{path} holds no use case; decorate a function with @use_case(...)")
    names = [use_case.name for use_case in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path} holds two use cases named {', '.join(twice)}")
    name = module.__name__
    return LoadedModule(
        path, code, {use_case.name: replace(use_case, module=name) for use_case in found}
    )


def make_importable(code: Code, folder: Path) -> str:
    """Let the modules of a version be imported in this process; return what their names begin with.

    Args:
        code: the version.
        folder: where its main module was read.
    """
    prefix = f"{PREFIX}{code.digest[:16]}_{sha256(os.fsencode(folder))[:8]}"
    _known[prefix] = (code, folder)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    return prefix


def main_module(code: Code, prefix: str, values: bytes = NO_VALUES) -> ModuleType:
    """The main module of a version, imported if it was not; of one that fails nothing is left.

    Args:
        code: the version.
        prefix: what the names of its modules begin with.
        values: what it had computed elsewhere; once it is imported, it goes on with that.
    """
    name = f"{prefix}.{code.main}"
    is_new = name not in sys.modules
    try:
        module = importlib.import_module(name)
        if is_new:
            lay_over(values, module)
    except BaseException:
        _forget(prefix)
        raise
    return module


def use_cases_in(module: ModuleType) -> list[UseCase]:
    """What ``@use_case`` made in a module."""
    return [value for value in vars(module).values() if isinstance(value, UseCase)]


def computed(module: str) -> bytes:
    """The plain values that a version of this module had computed here when it was imported."""
    return _computed.get(module.partition(".")[0], NO_VALUES)


def version_of(module: str) -> tuple[Code, Path] | None:
    """The version that a module of this name is of, and the folder of its main module."""
    return _known.get(module.partition(".")[0])


def is_of_version(module: ModuleType) -> bool:
    """Whether a module was made of the source that is kept with its version."""
    return isinstance(module.__loader__, _Loader | _Bare)


def forget_all_but(needed: Collection[str]) -> list[ModuleType]:
    """Forget the versions that none of these modules is of, and what was imported of them.

    Args:
        needed: names of modules, of versions or not.

    Returns:
        The modules of these; what they hold is there until they are collected as garbage.
    """
    over = _known.keys() - {module.partition(".")[0] for module in needed}
    forgotten = [module for prefix in over for module in _forget(prefix)]
    for prefix in over:
        del _known[prefix]
    return forgotten


def origin_of(module: LocalModule, folder: Path) -> str:
    """The file that a module was read from."""
    # A way up leads from where a link leads to.
    base = os.path.realpath(folder) if module.file.startswith("..") else folder
    return os.path.normpath(os.path.join(base, module.file))


@contextmanager
def nothing_imported() -> Iterator[None]:
    """For a while no module of any version is imported, or can be, as in a new worker."""
    before = {name: sys.modules.pop(name) for name in _imported()}
    known = dict(_known)
    _known.clear()
    try:
        yield
    finally:
        for name in _imported():
            del sys.modules[name]
        _known.update(known)
        sys.modules.update(before)


def line_in(error: BaseException, files: Sequence[str]) -> tuple[str, int] | None:
    """The file of these, and the line, in which an error came up."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in files:
            found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return found


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        prefix, _, name = fullname.partition(".")
        if prefix not in _known:
            return None
        code, folder = _known[prefix]
        module = next((module for module in code.modules if module.name == name), None)
        if module is None:
            bare = name == "" or name in code.names
            return ModuleSpec(fullname, _Bare(), is_package=True) if bare else None
        origin = origin_of(module, folder)
        spec = ModuleSpec(
            fullname,
            _Loader(code, module, prefix, origin),
            origin=origin,
            is_package=module.package,
        )
        spec.has_location = True
        return spec


class _Bare(Loader):
    """Of a package without a file."""

    def exec_module(self, module: ModuleType) -> None:
        pass


class _Loader(Loader):
    def __init__(self, code: Code, module: LocalModule, prefix: str, path: str) -> None:
        self._code, self._module, self._prefix = code, module, prefix
        #: where it was read
        self._path = path

    def get_data(self, path: str) -> bytes:
        """What ``pkgutil.get_data`` reads."""
        return Path(path).read_bytes()

    def get_resource_reader(self, name: str) -> FileReader:
        """What ``importlib.resources`` reads."""
        return FileReader(SourceFileLoader(name, self._path))

    def exec_module(self, module: ModuleType) -> None:
        file = str(module.__file__)
        tree = with_private_names(parsed(self._module.source, file), self._code.names, self._prefix)
        exec(compile(tree, file, "exec", dont_inherit=True), vars(module))  # noqa: S102 - an import


#: one for the process, as ``sys.modules``: by what names begin with, code and folder of versions
_known: dict[str, tuple[Code, Path]] = {}
_finder = _Finder()
#: what main modules had computed, by what names begin with
_computed: dict[str, bytes] = {}


def _imported() -> list[str]:
    return [name for name in list(sys.modules) if name.partition(".")[0] in _known]


def _forget(prefix: str) -> list[ModuleType]:
    _computed.pop(prefix, None)
    return [sys.modules.pop(name) for name in _imported() if name.partition(".")[0] == prefix]


def _refusal(error: BaseException, code: Code, path: Path, prefix: str) -> str:
    at = line_in(error, [origin_of(module, folder_of_file(path)) for module in code.modules])
    where = f"{at[0]}, line {at[1]}" if at else str(path)
    told = text_of(error).replace(f"{prefix}.", "")
    if isinstance(error, ConfigError):
        return told if told.startswith(where.partition(",")[0]) else f"{where}: {told}"
    if isinstance(error, SystemExit):
        return f"{where}, ends the process when it is imported: SystemExit: {told}"
    if isinstance(error, ModuleNotFoundError):
        told += (
            f"; a package has to be installed in the environment {sys.prefix} and wherever "
            f"executors run, and a module of your own lies beside {path.name}, or below it"
        )
    return f"{where}, does not import: {type(error).__name__}: {told}"
