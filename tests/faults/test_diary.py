"""The rows' own look at flights, chains and isolation finds what is planted."""

import json

import diary
import pytest

from headrace.testing.in_flight import Made
from headrace.testing.ledger import Place

FIRST, SECOND = (0, 5), (5, 9)


def written(path, *lines):
    """A diary of one lane: call, what, slice, and epoch."""
    rest = ("keep", "acme", 0, "acme.visits")
    told = [[call, what, *rest, *piece, epoch] for call, what, piece, epoch in lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in told))
    return diary.flights(path)


def test_slices_one_after_the_other_are_no_double_flight(tmp_path):
    report = written(
        tmp_path / "diary",
        ("a", "begin", FIRST, 1),
        ("a", "end", FIRST, 1),
        ("b", "begin", SECOND, 1),
        ("b", "end", SECOND, 1),
    )
    assert report.clean
    assert report.checked == 2


@pytest.mark.parametrize(
    ("piece", "epoch", "found"),
    [(SECOND, 1, True), (FIRST, 1, False), (SECOND, 2, False)],
    ids=["another slice", "the same slice again", "a later epoch"],
)
def test_two_slices_at_once_under_one_epoch_are_found(tmp_path, piece, epoch, found):
    report = written(
        tmp_path / "diary",
        ("a", "begin", FIRST, 1),
        ("b", "begin", piece, epoch),
        ("b", "end", piece, epoch),
        ("a", "end", FIRST, 1),
    )
    assert bool(report.findings) == found, str(report)


def test_a_call_that_never_ended_was_killed(tmp_path):
    report = written(
        tmp_path / "diary",
        ("a", "begin", FIRST, 1),
        ("b", "begin", SECOND, 1),
        ("b", "end", SECOND, 1),
    )
    assert report.clean
    assert report.checked == 1


def made(*slices):
    return [
        Made(Place("acme.visits", 0, offset), begin, end)
        for begin, end in slices
        for offset in range(begin, end)
    ]


@pytest.mark.parametrize(
    ("slices", "broken"),
    [((FIRST, SECOND), 0), ((FIRST, (6, 9)), 1), ((FIRST, (4, 9)), 1)],
    ids=["joined", "gap", "overlap"],
)
def test_slices_that_do_not_join_are_found(slices, broken):
    report = diary.chains(made(*slices))
    assert len(report.findings) == broken, str(report)
    assert report.checked == 2


def test_an_effect_made_in_the_slice_of_another_tenant_is_found():
    place = Place("acme.visits", 0, 0)
    owners = {"acme.visits": "acme"}
    assert diary.isolation(owners, [("acme", "acme", place)]).clean
    assert not diary.isolation(owners, [("acme", "bolt", place)]).clean
    assert not diary.isolation(owners, [("bolt", "bolt", place)]).clean
