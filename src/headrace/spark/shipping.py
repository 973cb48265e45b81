"""Sending a use case to the Python workers, so that a new version needs no new worker and no file.

What a driver and a worker run must be the same thing, made the same way. A class that is rebuilt
from a pickle need not be: one whose metaclass is written in C loses its fields, and what looks
itself up by its name finds another, or nothing. So a worker imports the sources of the version
under the names that the driver has them by, and finds in them, by the name of the use case, what is
called for records. The rest of the use case (its sink, its formats, its terms) travels as the
driver has it.
"""

from __future__ import annotations

import functools
import pickle
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import cloudpickle

from headrace.errors import ConfigError, words_of
from headrace.model.streams import original
from headrace.use_cases import UseCase
from headrace.versions.code import Code
from headrace.versions.loading import (
    computed,
    main_module,
    make_importable,
    use_cases_in,
    version_of,
)

#: in what a use case as it was recorded is another one
_TERMS = ("guarantee", "order", "bad_record")
#: what goes by value is one list for the process
_registering = threading.Lock()


def code_of(use_case: UseCase) -> bytes:
    """What workers need of it: all; of form wave, whose handler stays here, what reads records."""
    if use_case.form == "slice":
        return pickled(use_case)
    if use_case.event_time is None and not use_case.decodes:
        return b""
    return pickled(replace(use_case, handler=_stays_with_the_driver))


def _stays_with_the_driver(*_given: object) -> None:
    """Instead of a handler of DataFrames, which may hold what cannot be sent."""


def differs_in_terms_alone(use_case: UseCase, last: UseCase) -> bool:
    """Whether nothing but terms is other; what is the user's is not looked into."""
    same = [field.name for field in fields(UseCase) if field.name not in _TERMS]
    return all(getattr(use_case, name) is getattr(last, name) for name in same)


def terms_of(use_case: UseCase) -> tuple[tuple[str, Any], ...]:
    """What is sent beside code that was made before, so that it runs under this use case's terms.

    A driver needs it in the middle of a turn, where no code of a user may run, and none that is
    large be pickled or hashed.
    """
    return tuple((name, getattr(use_case, name)) for name in _TERMS)


def pickled(use_case: UseCase) -> bytes:
    """The use case with all of its local code, so that workers need no file.

    Raises:
        ConfigError: it holds on to something that cannot be sent, such as a connection.
    """
    name = home_of(use_case)
    version = version_of(name)
    try:
        if version is None:
            return _by_value(use_case, name)
        return _parcelled(use_case, name, *version)
    except Exception as exc:  # what a use case holds on to may raise anything when it is pickled
        raise ConfigError(
            f"use case {use_case.name} cannot be sent to executors: {words_of(exc)}; its sink and "
            "formats are sent as they were made: let them open what cannot when they are used"
        ) from exc


def _parcelled(use_case: UseCase, name: str, version: Code, folder: Path) -> bytes:
    called = {"handler": use_case.handler, "event_time": use_case.event_time}
    local = [what for what, given in called.items() if given is not None and not _is_ours(given)]
    stand_ins: dict[str, Any] = dict.fromkeys(local, _is_found_there)
    code = bytes(cloudpickle.dumps(replace(use_case, module="", **stand_ins)))
    if not local and name.partition(".")[0].encode() not in code:
        return code  # a worker has no need of the version
    return pickle.dumps(_Parcel(version, folder, computed(name), tuple(local), code))


def _is_ours(given: Callable[..., Any]) -> bool:
    return _module_of(given).partition(".")[0] == "headrace"


def _is_found_there(*_given: object) -> None:
    """Instead of what a worker finds in the version when it has imported it."""


def _by_value(use_case: UseCase, name: str) -> bytes:
    module = sys.modules.get(name)
    if module is None or name.partition(".")[0] in ("__main__", "headrace"):
        return bytes(cloudpickle.dumps(use_case))
    with _registering:
        cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(use_case))
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def home_of(use_case: UseCase) -> str:
    """The name of the module that a use case is of: of a version, the one that it was found in."""
    return use_case.module or _module_of(use_case.handler)


def _module_of(given: Callable[..., Any]) -> str:
    """The name of the module that something is written in."""
    while isinstance(given, functools.partial):
        given = given.func
    return getattr(given, "__module__", None) or "__main__"


@dataclass(frozen=True, slots=True)
class _Parcel:
    """Pickled, it is the use case; unpickled where its version is imported."""

    version: Code
    folder: Path
    #: plain values that its main module computed here
    values: bytes
    #: what is found there and not sent, by the names of its fields
    local: tuple[str, ...]
    code: bytes

    def __reduce__(self) -> tuple[Callable[..., UseCase], tuple[object, ...]]:
        return _unpacked, (self.version, self.folder, self.values, self.local, self.code)


def _unpacked(
    version: Code, folder: Path, values: bytes, local: Sequence[str], code: bytes
) -> UseCase:
    module = main_module(version, make_importable(version, folder), values)
    use_case: UseCase = replace(cloudpickle.loads(code), module=module.__name__)
    name = original(use_case.name)
    found = next((made for made in use_cases_in(module) if made.name == name), None)
    if found is None:
        raise LookupError(f"{module.__file__} makes no use case {name} when it is imported here")
    return replace(use_case, **{what: getattr(found, what) for what in local})
