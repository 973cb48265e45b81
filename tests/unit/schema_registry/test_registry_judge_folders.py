"""What judges of a registry that was killed left is removed, and nothing else is."""

import os
import subprocess
import sys
import tempfile

import pytest

from headrace.schema_registry.judge_folders import PREFIX, made_folder, remove_left_folders


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left(place, name, mode=0o700):
    folder = place / f"{PREFIX}{name}"
    folder.mkdir(mode=mode)
    folder.chmod(mode)
    (folder / "in").mkdir()
    (folder / "in" / "a.proto").write_text("a")
    return folder


def test_what_was_left_is_removed_and_what_is_held_or_not_ours_stays(place):
    held, gone = made_folder(), left(place, "gone")
    others, file = left(place, "others", 0o755), place / f"{PREFIX}file"
    file.write_text("a")
    (place / "another").mkdir()
    remove_left_folders()
    assert not gone.exists()
    assert sorted(place.iterdir()) == sorted(
        [others, file, place / "another", place / os.path.basename(held.path)]
    )
    held.remove()
    assert not os.path.exists(held.path)


def test_no_link_is_followed(place, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    elsewhere.chmod(0o700)
    (elsewhere / "kept").write_text("a")
    (place / f"{PREFIX}link").symlink_to(elsewhere)
    (left(place, "gone") / "out").symlink_to(elsewhere)
    remove_left_folders()
    assert (elsewhere / "kept").exists()
    assert [path.name for path in place.iterdir()] == [f"{PREFIX}link"]


def test_a_folder_of_a_process_that_was_killed_is_free(place):
    code = (
        "from headrace.schema_registry.judge_folders import made_folder\n"
        "folder = made_folder(); print(folder.path, flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(place)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        path = process.stdout.readline().strip()
        remove_left_folders()
        assert os.path.isdir(path)
        process.kill()
        process.wait()
        remove_left_folders()
        assert not os.path.exists(path)
