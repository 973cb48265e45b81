"""Programs that tests fetch from Maven Central, kept in the user's cache beside the jars."""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from headrace.embedded.folder_lock import FolderLock
from headrace.embedded.jars import cache_folder


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
