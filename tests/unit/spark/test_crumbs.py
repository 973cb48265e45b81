"""Knowing at which slice a worker died."""

import os
import time

import pytest

from headrace.model.streams import LaneId, Slice
from headrace.spark import crumbs
from headrace.spark.crumbs import Crumbs, crumbs_of

SLICES = tuple(Slice(LaneId("keep", name, 0), f"{name}.visits", 0, 9, 1) for name in "abc")


def die_at(path, piece):
    """A process that ends without a word in the middle of a call."""
    child = os.fork()
    if child == 0:
        Crumbs(path, SLICES).during(piece, lambda: os._exit(9))
    os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:This process")
def test_the_next_attempt_knows_where_the_last_one_died(tmp_path):
    path = tmp_path / "crumb"
    die_at(path, SLICES[1])
    again = Crumbs(path, SLICES)
    assert again.killers == {SLICES[1]}
    again.close()
    assert not path.exists()


@pytest.mark.filterwarnings("ignore:This process")
def test_every_attempt_adds_to_what_is_known(tmp_path):
    path = tmp_path / "crumb"
    die_at(path, SLICES[2])
    die_at(path, SLICES[0])
    assert Crumbs(path, SLICES).killers == {SLICES[0], SLICES[2]}


def test_a_call_that_comes_back_leaves_nothing_even_if_it_raises(tmp_path):
    path = tmp_path / "crumb"
    made = Crumbs(path, SLICES)
    assert made.during(SLICES[0], lambda: 7) == 7
    with pytest.raises(KeyError):
        made.during(SLICES[1], lambda: {}["x"])
    assert Crumbs(path, SLICES).killers == frozenset()


def test_a_torn_file_is_read_as_far_as_it_goes(tmp_path):
    path = tmp_path / "crumb"
    path.write_bytes(b"\x01\x00\x00\x00\x02")
    assert Crumbs(path, SLICES).killers == {SLICES[1]}


def test_crumbs_of_tasks_that_never_came_back_are_swept(tmp_path, monkeypatch):
    monkeypatch.setattr(crumbs.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(crumbs, "_swept_at_s", float("-inf"))
    crumbs_of("w1/0", SLICES)
    (left,) = tmp_path.glob("*/*")
    assert left.parent.stat().st_mode & 0o777 == 0o700
    old_s = time.time() - 7200
    os.utime(left, (old_s, old_s))
    monkeypatch.setattr(crumbs, "_swept_at_s", float("-inf"))
    crumbs_of("w2/0", SLICES)
    assert not left.exists()
