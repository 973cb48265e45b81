"""Sending a use case to the Python workers: by value, so that a new version needs no new worker."""

from __future__ import annotations

import functools
import pickle
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import cloudpickle

from headrace.errors import ConfigError, words_of
from headrace.model.streams import Guarantee, Order
from headrace.use_cases import Handler, UseCase
from headrace.versions.code import Code
from headrace.versions.loading import make_importable, version_of

#: what goes by value is one list for the process
_registering = threading.Lock()


def code_of(use_case: UseCase) -> bytes:
    """What workers need of it: all; of form wave, whose handler stays here, what reads records."""
    if use_case.form == "slice":
        return pickled(use_case)
    if use_case.event_time is None and not use_case.decodes:
        return b""
    return pickled(replace(use_case, handler=use_case.event_time or _stays_with_the_driver))


def _stays_with_the_driver(*_given: object) -> None:
    """Instead of a handler of DataFrames, which may hold what cannot be sent."""


def differs_in_terms_alone(use_case: UseCase, last: UseCase) -> bool:
    """Whether nothing but guarantee and order are other; what is the user's is not looked into."""
    same = [field.name for field in fields(UseCase) if field.name not in ("guarantee", "order")]
    return all(getattr(use_case, name) is getattr(last, name) for name in same)


def under_terms(code: bytes, use_case: UseCase) -> bytes:
    """Code made before, under the terms of this use case; nothing of the user's is pickled again.

    A driver needs it in the middle of a turn, where no code of a user may run.
    """
    return pickle.dumps(_Under(code, use_case.guarantee, use_case.order)) if code else code


class _Under:
    """Pickled, it is the use case that some code holds, under other terms."""

    def __init__(self, *given: object) -> None:
        self._given = given

    def __reduce__(self) -> tuple[Callable[..., UseCase], tuple[object, ...]]:
        return _loaded_under, self._given


def _loaded_under(code: bytes, guarantee: Guarantee, order: Order) -> UseCase:
    use_case: UseCase = cloudpickle.loads(code)
    return replace(use_case, guarantee=guarantee, order=order)


def pickled(use_case: UseCase) -> bytes:
    """The use case with all of its local code, so that workers need no file.

    The module that the handler is in goes by value. It and the local modules that it imports go as
    sources too, and what a worker needs of them it imports under the names of this version. What is
    installed must be installed on the executors as well.

    Raises:
        ConfigError: the handler holds on to something that cannot be sent, such as a connection.
    """
    module = home_of(use_case)
    version = version_of(module)
    try:
        code = _by_value(use_case, module)
    except Exception as exc:  # what a use case holds on to may raise anything when it is pickled
        raise ConfigError(
            f"use case {use_case.name} cannot be sent to executors: {words_of(exc)}; "
            "open connections and Spark sessions inside the handler, not in the module"
        ) from exc
    return code if version is None else pickle.dumps(_Parcel(*version, code))


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
    """The name of the module that a use case is of.

    A handler may be an object of something installed, made of local functions. Then the use case is
    of the module that it was found in.
    """
    name = _module_of(use_case.handler)
    return name if version_of(name) is not None else use_case.module or name


def _module_of(handler: Handler) -> str:
    """The name of the module that a handler is written in."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return getattr(handler, "__module__", None) or "__main__"


@dataclass(frozen=True, slots=True)
class _Parcel:
    """Pickled, it is the use case; unpickled where its local modules can be imported."""

    version: Code
    folder: Path
    code: bytes

    def __reduce__(self) -> tuple[Callable[..., UseCase], tuple[object, ...]]:
        return _unpacked, (self.version, self.folder, self.code)


def _unpacked(version: Code, folder: Path, code: bytes) -> UseCase:
    make_importable(version, folder)
    use_case: UseCase = cloudpickle.loads(code)
    return use_case
