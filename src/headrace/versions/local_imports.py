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
_BY_FILE = ("spec_from_file_location", "SourceFileLoader", "run_path")
_DATA = ("pkgutil.get_data", "importlib.resources.files")
_LISTING = ("iter_modules", "walk_packages")
#: by what a module may say its own package
_OWN = ("__package__", "__name__")


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a source."""

    line: int
    #: modules that it may mean; of ``from a import b`` both ``a`` and ``a.b``
    names: tuple[str, ...]
    #: it is a call such as ``import_module("a")``
    dynamic: bool = False
    #: it is a call such as ``pkgutil.iter_modules(a.__path__)``, which looks into a's folder
    listing: bool = False
    #: it is a call such as ``pkgutil.get_data("a", "table")``, which finds a by its whole name
    data: bool = False


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
    data = _data_calls(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield Import(node.lineno, tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, path, name, package)
            names = [f"{base}.{alias.name}" for alias in node.names if alias.name != "*"]
            yield Import(node.lineno, (base, *names))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in data:
            if said := _text(_argument(node, 0, "package")):
                yield Import(node.lineno, (said,), data=True)
        elif isinstance(node, ast.Call):
            yield from _by_call(node, name if package else name.rpartition(".")[0])


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


def _data_calls(tree: ast.Module) -> frozenset[str]:
    """How a source says the functions that find data by the name of a package."""
    found = set(_DATA)
    for node in [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]:
        for alias in node.names:
            taken = f"{node.module}.{alias.name}"
            wanted = [said for said in _DATA if f"{said}.".startswith(f"{taken}.")]
            found |= {said.replace(taken, alias.asname or alias.name, 1) for said in wanted}
    return frozenset(found)


def _by_call(node: ast.Call, package: str) -> Iterator[Import]:
    """What a call imports, or looks for, in a module of ``package``."""
    called = node.func
    word = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if word in _LISTING:
        yield from _listed(node, package)
    elif word in _BY_FILE:
        yield Import(node.lineno, tuple(_by_file(node)), dynamic=True)
    elif word in _DYNAMIC and (said := _text(_argument(node, 0, "name"))):
        yield from (
            _relative(node, said, package)
            if said[0] == "."
            else [Import(node.lineno, (said,), dynamic=True)]
        )


def _by_file(node: ast.Call) -> Iterator[str]:
    """Modules that a call may mean by the name and the path that it says.

    Of ``("a", Path(__file__).parent / "b" / "c.py")`` these are ``a``, ``c`` and ``b.c``.
    """
    texts = [found for found in ast.walk(node) if isinstance(found, ast.Constant) and _text(found)]
    texts.sort(key=lambda found: (found.lineno, found.col_offset))
    said = [_text(found) for found in texts]
    if _text(_argument(node, 0, "fullname")):
        yield from (name for name in said[:1] if name.replace(".", "").isidentifier())
    parts = [part for part in "/".join(said).split("/") if part not in ("", ".")]
    is_whole = any(_text(given).startswith("/") for given in node.args)  # nor beside what says it
    if not is_whole and parts and parts[-1].endswith(".py") and parts[-1] != "__init__.py":
        parts[-1] = parts[-1].removesuffix(".py")
        endings = (parts[begin:] for begin in range(len(parts)))
        yield from (".".join(ending) for ending in endings if all(map(str.isidentifier, ending)))


def _relative(node: ast.Call, said: str, package: str) -> Iterator[Import]:
    """``import_module(".a", __package__)``: as the statement does, it finds the version's own."""
    base = _argument(node, 1, "package")
    is_own = isinstance(base, ast.Name) and base.id in _OWN
    inside = [*parents(said_base := _text(base) or package), said_base]
    rest = said.lstrip(".")
    level = len(said) - len(rest)
    if inside[0] and level <= len(inside):  # else Python does not find it either
        yield Import(node.lineno, (f"{inside[-level]}.{rest}",), dynamic=not is_own)


def _listed(node: ast.Call, package: str) -> Iterator[Import]:
    path = _argument(node, 0, "path")
    if isinstance(path, ast.Name) and path.id == "__path__":
        yield Import(node.lineno, (package,), listing=True)
    elif isinstance(path, ast.Attribute) and path.attr == "__path__":
        said = ast.unparse(path.value)
        yield Import(node.lineno, (said, f"{package}.{said}"), listing=True)


def _argument(node: ast.Call, place: int, name: str) -> ast.expr | None:
    if place < len(node.args):
        return node.args[place]
    return next((keyword.value for keyword in node.keywords if keyword.arg == name), None)


def _text(node: ast.expr | None) -> str:
    said = node.value if isinstance(node, ast.Constant) else None
    return said if isinstance(said, str) else ""


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
