"""What a source imports, told without running it; and the same source with private names.

A local module of a version must not be found by another version, nor be one that another version
has loaded. So each is imported under a name of its version, and every statement that imports a
local module is written anew to say that name: on the driver, and in a function that imports when it
runs, on a worker too.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from headrace.errors import ConfigError
from headrace.versions.code import parents

_DYNAMIC = ("import_module", "__import__")


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a source."""

    line: int
    #: modules that it may mean; of ``from a import b`` both ``a`` and ``a.b``
    names: tuple[str, ...]
    #: it is a call such as ``import_module("a")``
    dynamic: bool = False


def parsed(source: bytes, path: str) -> ast.Module:
    """The tree of a source.

    Raises:
        ConfigError: it is no Python; the line is told.
    """
    try:
        return ast.parse(source, path)
    except (SyntaxError, ValueError) as exc:
        line = f", line {exc.lineno}," if isinstance(exc, SyntaxError) and exc.lineno else ""
        told = exc.msg if isinstance(exc, SyntaxError) else exc
        raise ConfigError(f"{path}{line} does not import: {type(exc).__name__}: {told}") from exc


def imports_of(tree: ast.Module, path: str, name: str, *, package: bool) -> Iterator[Import]:
    """All imports, those inside functions too.

    Args:
        tree: the source.
        path: where it is, for errors.
        name: its own name.
        package: it is the ``__init__.py`` of a package.

    Raises:
        ConfigError: a relative import leads out of its package, or there is none.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield Import(node.lineno, tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, path, name, package)
            names = [f"{base}.{alias.name}" for alias in node.names if alias.name != "*"]
            yield Import(node.lineno, (base, *names))
        elif isinstance(node, ast.Call) and (said := _dynamic(node)):
            yield Import(node.lineno, (said,), dynamic=True)


def with_private_names(tree: ast.Module, local: Collection[str], prefix: str) -> ast.Module:
    """The same, with imports of local modules under ``prefix``."""
    made: ast.Module = _Private(local, prefix).visit(tree)
    return ast.fix_missing_locations(made)


def _base(node: ast.ImportFrom, path: str, name: str, package: bool) -> str:
    if not node.level:
        return node.module or ""
    inside = [*parents(name), *([name] if package else [])]
    if node.level > len(inside):
        raise ConfigError(
            f"{path}, line {node.lineno}: a relative import that leads out of its package; put an "
            "__init__.py into the folder, or import by the whole name"
        )
    above = inside[-node.level]
    return f"{above}.{node.module}" if node.module else above


def _dynamic(node: ast.Call) -> str:
    """The module that a call such as ``importlib.import_module("a")`` names."""
    called = node.func
    word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    named = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
    first = next(iter([*node.args, *named]), None)
    if word not in _DYNAMIC or not isinstance(first, ast.Constant):
        return ""
    return first.value if isinstance(first.value, str) else ""


class _Private(ast.NodeTransformer):
    def __init__(self, local: Collection[str], prefix: str) -> None:
        self._local, self._prefix = local, prefix

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for alias in node.names:
            if alias.name not in self._local:
                made.append(ast.Import([alias]))
                continue
            whole = f"{self._prefix}.{alias.name}"
            top = alias.name.partition(".")[0]
            made.append(ast.Import([ast.alias(whole, alias.asname or top)]))
            if alias.asname is None and top != alias.name:
                # ``import a.b`` means a, with b loaded.
                made.append(ast.Import([ast.alias(f"{self._prefix}.{top}", top)]))
        return [ast.copy_location(statement, node) for statement in made]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom:
        if not node.level and node.module in self._local:
            node.module = f"{self._prefix}.{node.module}"
        return node
