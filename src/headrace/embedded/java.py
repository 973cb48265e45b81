"""Finding a Java that Spark and Kafka can run on.

Both need Java 17 or later, and the runtimes that pip can install lack a module Spark asks for. So
Java comes from the system, and a machine without it should hear the exact command that brings it,
before anything half starts.

Nothing is installed here; ``scripts/setup`` does that where it may.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from headrace.errors import ServerError

OLDEST = 17
INSTALL = (
    "on Debian or Ubuntu: apt-get install -y openjdk-17-jre-headless; "
    "on macOS: brew install openjdk@17; or set JAVA_HOME"
)


def find_java() -> Path:
    """The ``java`` to run: that of ``JAVA_HOME`` if it is set, else the one on the path.

    Raises:
        ServerError: there is none, it does not run, or it is older than Java 17.
    """
    java = _candidate()
    version = _major_version(java)
    if version < OLDEST:
        raise ServerError(
            f"{java} is Java {version}, but Java {OLDEST} or later is needed; {INSTALL}"
        )
    return java


def _candidate() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        if not java.is_file():
            raise ServerError(f"JAVA_HOME is {home}, but {java} is not there; {INSTALL}")
        return java
    found = shutil.which("java")
    if found is None:
        raise ServerError(f"Java {OLDEST} or later is needed and no java is found; {INSTALL}")
    return Path(found)


def _major_version(java: Path) -> int:
    try:
        asked = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise ServerError(f"{java} does not run: {exc}; {INSTALL}") from exc
    said = asked.stderr + asked.stdout
    # Java 8 calls itself 1.8.0, later ones 17.0.15 or 25-ea
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None:
        raise ServerError(f"{java} does not tell its version: {said.strip()[:200]!r}; {INSTALL}")
    return int(match.group(1))
