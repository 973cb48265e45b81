"""What a module computed when it was imported, as far as it can be the same in each process.

Every worker imports a version for itself. A module may have asked the clock, chance, an environment
variable or a file beside it, and then two workers would compute otherwise, in silence. So the plain
values (numbers, texts, times, and lists and the like of them) that its functions say by name travel
with it: where a worker has computed another one, it goes on with the driver's.

Whatever else a module makes (classes, locks, tables, what it baked into a default) each worker
makes for itself.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from types import CodeType, ModuleType
from uuid import UUID
from zoneinfo import ZoneInfo

from headrace.versions.code import Code

_NUMBERS = (type(None), bool, int, float, complex, Decimal, Fraction)
_PLAIN = (*_NUMBERS, str, bytes, UUID, date, timedelta)
_ZONES = (type(None), timezone, ZoneInfo)
NO_VALUES = pickle.dumps({})


def plain_values(code: Code, module: ModuleType) -> bytes:
    """The values that travel, pickled; nothing of the user's is called.

    Args:
        code: the version.
        module: its main module, which was imported just now.
    """
    said = {name for source in code.modules for name in _said_in_functions(source.source)}
    here = {name: value for name, value in list(vars(module).items()) if name in said}
    # Its own names, such as ``__file__``, are made anew.
    return pickle.dumps(
        {name: value for name, value in here.items() if name[:2] != "__" and _is_plain(value)}
    )


def lay_over(values: bytes, module: ModuleType) -> None:
    """Give a module that was imported just now the values that it had elsewhere, if others."""
    for name, value in pickle.loads(values).items():  # noqa: S301 - made by ``plain_values``
        there = vars(module).get(name)
        if name not in vars(module) or not _same(there, value):
            setattr(module, name, value)


def _same(there: object, value: object) -> bool:
    # An object of the user's may answer anything when it is compared.
    return type(there) is type(value) and _is_plain(there) and there == value


def _is_plain(value: object) -> bool:
    try:
        return _plain(value)
    except (RecursionError, RuntimeError):  # it holds itself, or a thread changes it
        return False


def _plain(value: object) -> bool:
    kind = type(value)
    if kind in _PLAIN:
        return True
    if isinstance(value, (datetime, time)):
        return kind in (datetime, time) and type(value.tzinfo) in _ZONES
    if isinstance(value, dict):
        return kind is dict and all(_plain(key) and _plain(held) for key, held in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return kind in (list, tuple, set, frozenset) and all(_plain(held) for held in value)
    return False


def _said_in_functions(source: bytes) -> Iterator[str]:
    """Names that the functions of a module may look up in a module."""
    waiting = _inner(compile(source, "", "exec", dont_inherit=True))
    while waiting:
        code = waiting.pop()
        yield from code.co_names
        waiting += _inner(code)


def _inner(code: CodeType) -> list[CodeType]:
    return [held for held in code.co_consts if isinstance(held, CodeType)]
