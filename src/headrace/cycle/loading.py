"""Finding use cases in a Python file, and loading a changed one without a restart.

A plain ``import`` answers with the first version for ever. So a file is loaded under a name that
carries the digest of its source: two versions live side by side, and waves that run keep theirs.

Workers do not import the file; they are given the code by value (`spark/engine.py`).
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from headrace.errors import ConfigError
from headrace.use_cases import UseCase


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """The use cases of one file, and the digest of its source."""

    path: Path
    digest: str
    use_cases: dict[str, UseCase]


def find_module(name: str, folder: Path) -> Path:
    """The file of a module given as a path, relative to ``folder``, or as a dotted name.

    Raises:
        ConfigError: there is no such file or module.
    """
    if name.endswith(".py"):
        path = (folder / name).resolve()
        if not path.is_file():
            raise ConfigError(f"module {name}: there is no file {path}")
        return path
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError) as exc:
        raise ConfigError(f"module {name}: {exc}") from exc
    if spec is None or spec.origin is None:
        raise ConfigError(f"module {name} is not installed; give a path such as ./{name}.py")
    return Path(spec.origin)


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as exc:
        raise ConfigError(f"module {path} cannot be read: {exc.strerror}") from exc


def load_module(path: Path) -> LoadedModule:
    """Import the file as it is now and collect what ``@use_case`` made in it.

    Raises:
        ConfigError: it does not import, holds no use case, or two of the same name.
    """
    digest = digest_of(path)
    module = _import(path, f"headrace_use_cases_{digest[:16]}")
    found = [each for each in vars(module).values() if isinstance(each, UseCase)]
    if not found:
        raise ConfigError(f"{path} holds no use case; decorate a function with @use_case(...)")
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path} holds two use cases named {', '.join(twice)}")
    return LoadedModule(path, digest, {each.name: each for each in found})


def _import(path: Path, name: str) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, path
    assert spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except ConfigError as exc:
        del sys.modules[name]
        raise ConfigError(f"{path}: {exc}") from exc
    except Exception as exc:
        del sys.modules[name]
        line = _line_in(exc, path)
        raise ConfigError(f"{path}{line} does not import: {type(exc).__name__}: {exc}") from exc
    finally:
        sys.path.remove(str(path.parent))
    return module


def _line_in(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f", line {error.lineno},"
    line, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = f", line {trace.tb_lineno},"
        trace = trace.tb_next
    return line
