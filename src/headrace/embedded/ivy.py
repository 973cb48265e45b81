"""Fetching jars with the Ivy that comes inside pyspark.

A machine with pyspark and Java already has a resolver that knows Maven Central, so nobody needs
Maven. Ivy runs as a program of its own, with settings of ours: just the jars that are named, or,
when a lock is made, these with all they depend on.

A company with its own mirror names its Ivy settings file in ``HEADRACE_IVY_SETTINGS``; that file
must not follow dependencies on its own.

What is fetched is not trusted here; ``jars.py`` compares it with the lock.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from headrace.embedded.java import find_java
from headrace.errors import ServerError

#: what a machine alone can use has a fourth part
_PATTERN = "[organisation]__[artifact]__[revision](__[classifier]).[ext]"


class Coordinates(NamedTuple):
    """Which jar: ``group:artifact:version``."""

    group: str
    artifact: str
    version: str

    @property
    def file_name(self) -> str:
        """The jar's name in a folder, unique over groups."""
        return f"{self.group}__{self.artifact}__{self.version}.jar"

    def __str__(self) -> str:
        """As in a build file."""
        return ":".join(self)


def retrieve(
    wanted: Sequence[Coordinates],
    target: Path,
    on_jar: Callable[[str], None],
    transitive: bool = False,
) -> None:
    """Put the jars of ``wanted`` into ``target``, as ``Coordinates.file_name``.

    ``on_jar`` is called with ``group#artifact;version`` whenever another one has been found.

    Raises:
        ServerError: a jar cannot be had; the message shows Ivy's last words.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-ivy-") as scratch:
        module = Path(scratch, "ivy.xml")
        module.write_text(_module(wanted, transitive))
        settings = os.environ.get("HEADRACE_IVY_SETTINGS") or _settings(Path(scratch), transitive)
        command = [str(find_java()), "-Xmx256m", "-jar", str(_ivy_jar())]
        command += ["-settings", settings, "-ivy", str(module), "-confs", "default"]
        command += ["-retrieve", f"{target}/{_PATTERN}"]
        last_lines: list[str] = []
        with subprocess.Popen(  # noqa: S603 - the command is ours
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as ivy:
            assert ivy.stdout is not None
            for line in ivy.stdout:
                last_lines = [*last_lines[-30:], line.strip()]
                words = line.split()
                if words[:1] == ["found"]:
                    on_jar(words[1])
    if ivy.returncode != 0:
        raise ServerError(
            "jars could not be fetched; check the network, or name the Ivy settings of your mirror "
            "in HEADRACE_IVY_SETTINGS. Ivy says:\n" + "\n".join(filter(None, last_lines))
        )


def _module(wanted: Sequence[Coordinates], transitive: bool) -> str:
    follow = quoteattr(str(transitive).lower())
    dependencies = "".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} "
        f'rev={quoteattr(jar.version)} conf="default" transitive={follow}/>'
        for jar in wanted
    )
    return (
        '<ivy-module version="2.0"><info organisation="headrace" module="jars"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )


def _settings(scratch: Path, transitive: bool) -> str:
    # without POMs a jar is one request; Ivy's own SHA-1 check is no match for the lock's SHA-256
    resolver = (
        '<ibiblio name="central" m2compatible="true"/>'
        if transitive
        else '<ibiblio name="central" m2compatible="true" usepoms="false" checksums=""/>'
    )
    path = scratch / "ivysettings.xml"
    path.write_text(
        '<ivysettings><settings defaultResolver="central"/>'
        f"<caches defaultCacheDir={quoteattr(str(scratch / 'cache'))}/>"
        f"<resolvers>{resolver}</resolvers></ivysettings>"
    )
    return str(path)


def _ivy_jar() -> Path:
    # looked up, not imported: importing pyspark takes a second and belongs to spark/
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ServerError("pyspark is not installed; its Ivy is needed to fetch jars")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise ServerError(f"pyspark in {Path(spec.origin).parent} has no jars/ivy-*.jar")
    return found[-1]
