"""Names of a package that are imported when they are used.

Whoever imports a room runs the ``__init__`` of every package above it. One that imports all that it
offers makes a short command, or a process that checks one file, wait for what it never uses. So a
package may say where its names are, and none is imported before it is asked for (PEP 562).

For type checkers the package has the same imports below ``if TYPE_CHECKING``: tests hold both to
each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def imported_late(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` of a package, and its ``__dir__``, by which people and tools look.

    Args:
        package: its name, such as ``headrace.store``.
        names: those it offers, by the full name of the module that has them.
    """
    modules = {name: module for module, offered in names.items() for name in offered}

    def found(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    def all_names() -> list[str]:
        return sorted({*vars(import_module(package)), *modules})

    return found, all_names
