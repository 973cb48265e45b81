"""What was deployed is kept whole, taken only if unchanged, and removed when nobody uses it."""

import os
import shutil
import time

import pytest

from headrace.errors import ConfigError
from headrace.versions import Code, LocalModule, Shelf
from headrace.versions.shelf import KEPT_S


def code(answer, *more):
    main = LocalModule("flows.score", False, "score.py", f"x = {answer}\n".encode())
    return Code("flows.score", (main, *more))


HELPER = LocalModule("flows", True, "__init__.py", b"")


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "versions")


@pytest.mark.parametrize("kept", [code(1), code(1, HELPER)], ids=["one file", "two files"])
def test_what_was_kept_is_taken(shelf, kept):
    shelf.keep(kept, "a")
    shelf.keep(kept, "a")
    shelf.keep(code(2), "a")
    assert shelf.take(kept.digest) == kept


def test_what_was_not_kept_is_not_there(shelf):
    shelf.keep(code(1), "a")
    assert shelf.take(code(2).digest) is None


def test_a_digest_never_leads_out_of_the_folder(shelf, tmp_path):
    kept = code(1)
    shelf.keep(kept, "a")
    shutil.move(shelf.folder / kept.digest, tmp_path / "elsewhere")
    assert shelf.take("../elsewhere") is None
    assert shelf.take(str(tmp_path / "elsewhere")) is None


def changed(place):
    (place / "flows.score.py").write_text("x = 3\n")


def without(place):
    (place / "flows.score.py").unlink()


def cut(place):
    manifest = place / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:20])


def renamed(place):
    manifest = place / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"flows.score"', '"../../x"'))


def said_to_lie_elsewhere(place):
    """A module reads its data beside where it believes to lie: it may be unpickled there."""
    manifest = place / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"score.py"', '"../versions/bad/score.py"'))


@pytest.mark.parametrize("harm", [changed, without, cut, renamed, said_to_lie_elsewhere])
@pytest.mark.parametrize("kept", [code(1), code(1, HELPER)], ids=["one file", "two files"])
def test_what_was_changed_is_refused_and_kept_anew_by_the_next_deploy(shelf, kept, harm):
    shelf.keep(kept, "a")
    harm(shelf.folder / kept.digest)
    with pytest.raises(ConfigError, match="somebody has changed it"):
        shelf.take(kept.digest)
    shelf.keep(kept, "a")
    assert shelf.take(kept.digest) == kept
    assert sorted(path.name for path in shelf.folder.iterdir()) == [kept.digest]


def weeks_later(shelf, kept):
    past = time.time() - KEPT_S - 1
    os.utime(shelf.folder / kept.digest / "deployed-by", (past, past))


def test_a_version_goes_a_week_after_the_last_store_has_another(shelf):
    old, new = code(1), code(2)
    for store in ("a", "b"):
        shelf.keep(old, store)
        shelf.keep(new, store)
    weeks_later(shelf, old)
    shelf.sweep({new.digest}, "a")
    assert shelf.take(old.digest) == old, "the other store runs it"
    shelf.sweep({new.digest}, "b")
    assert shelf.take(old.digest) == old, "a driver may be about to start"
    weeks_later(shelf, old)
    weeks_later(shelf, new)
    shelf.sweep({new.digest}, "b")
    assert shelf.take(old.digest) is None
    assert shelf.take(new.digest) == new


def test_what_a_killed_process_has_left_goes_a_week_later(shelf):
    unmarked, half, used = code(1), shelf.folder / f".{'0' * 32}", code(2)
    for version in (unmarked, used):
        shelf.keep(version, "a")
        shutil.rmtree(shelf.folder / version.digest / "deployed-by")
    half.mkdir()
    (shelf.folder / ".git").mkdir()
    shelf.sweep({used.digest}, "a")
    assert shelf.take(unmarked.digest) == unmarked
    assert half.is_dir(), "it may be made at this moment"
    past = time.time() - KEPT_S - 1
    for place in shelf.folder.iterdir():
        os.utime(place, (past, past))
    shelf.sweep({used.digest}, "a")
    assert {path.name for path in shelf.folder.iterdir()} == {used.digest, ".git"}


def test_a_folder_that_cannot_be_written_to_says_what_to_do(tmp_path):
    (tmp_path / "versions").write_text("a file")
    with pytest.raises(ConfigError, match=r"cannot be written to: .*; name another folder by 'ver"):
        Shelf(tmp_path / "versions").keep(code(1), "a")
