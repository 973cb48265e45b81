"""The sources of a version, and the digest that names them.

A module that imports no other local one has the SHA-256 of its file as digest, as ``sha256sum``
tells it. Otherwise the digest is that of a list with the name, the place and the SHA-256 of each
module; so it changes with any of them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LocalModule:
    """A module of a version."""

    #: as imports say it, such as ``flows.score``
    name: str
    #: it is the ``__init__.py`` of a package
    package: bool
    #: its place, seen from the folder of the main module
    file: str
    source: bytes


@dataclass(frozen=True, slots=True)
class Code:
    """Everything local that a use case runs."""

    #: name of the module that has the use cases
    main: str
    #: it, and what it imports, by name
    modules: tuple[LocalModule, ...]

    @property
    def digest(self) -> str:
        """The name of the version: SHA-256, in hexadecimal."""
        if len(self.modules) == 1:
            return sha256(self.modules[0].source)
        return sha256(self.manifest)

    @property
    def main_digest(self) -> str:
        """SHA-256 of the main module alone, by which an earlier Headrace named a version."""
        return next(sha256(module.source) for module in self.modules if module.name == self.main)

    @property
    def manifest(self) -> bytes:
        """The list of its modules; equal for equal code, wherever it lies."""
        listed = [
            {
                "name": module.name,
                "package": module.package,
                "file": module.file,
                "sha256": sha256(module.source),
            }
            for module in self.modules
        ]
        return json.dumps({"main": self.main, "modules": listed}, indent=1).encode()

    @property
    def names(self) -> frozenset[str]:
        """Names that imports may say, of packages without a file of their own too."""
        found = {module.name for module in self.modules}
        return frozenset(found | {parent for name in found for parent in parents(name)})


def sha256(data: bytes) -> str:
    """SHA-256, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def parents(name: str) -> list[str]:
    """The packages that a dotted name is in, from the outermost."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]
