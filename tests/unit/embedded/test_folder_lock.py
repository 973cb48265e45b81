"""One server a folder."""

import os
import subprocess
import threading

import pytest

from headrace.embedded.folder_lock import FolderLock
from headrace.errors import ServerError


def test_a_folder_is_made_and_held(tmp_path):
    with FolderLock(tmp_path / "new" / "folder"):
        assert (tmp_path / "new" / "folder").is_dir()


def test_a_held_folder_is_refused_with_its_holder(tmp_path):
    with FolderLock(tmp_path), pytest.raises(ServerError, match=f"in use.*{os.getpid()}"):
        FolderLock(tmp_path)


def test_a_folder_let_go_can_be_had_again(tmp_path):
    FolderLock(tmp_path).close()
    FolderLock(tmp_path).close()


def test_a_child_with_the_descriptor_still_holds_the_folder(tmp_path):
    lock = FolderLock(tmp_path)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[lock.descriptor]):
        lock.close()
        with pytest.raises(ServerError, match="in use"):
            FolderLock(tmp_path)


def test_a_holder_whose_owner_is_gone_is_waited_for(tmp_path):
    held = FolderLock(tmp_path)
    gone = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True, check=True)
    (tmp_path / ".headrace.lock").write_text(gone.stdout.strip())
    release = threading.Timer(0.05, held.close)
    release.start()
    FolderLock(tmp_path, wait_s=10).close()
    release.join()
    assert (tmp_path / ".headrace.lock").read_text() == str(os.getpid())


def test_waiting_for_a_holder_has_an_end(tmp_path):
    with FolderLock(tmp_path), pytest.raises(ServerError, match="in use"):
        FolderLock(tmp_path, wait_s=0.01, wait_for_living=True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match="file/folder cannot be written"):
        FolderLock(tmp_path / "file" / "folder")
