"""Versions: what is newer along a lineage has the larger one, in 64 bits."""

import pytest

from headrace.model.record_versions import MOST_DEPTH, NUMBER_BITS, first_version, version_of


def test_a_deeper_lane_has_the_larger_versions_whatever_its_numbers():
    assert version_of(3, 0) > version_of(2, 2**NUMBER_BITS - 1)
    assert version_of(2, 8) > version_of(2, 7)


def test_versions_are_numbers_of_64_bits_with_a_sign():
    assert version_of(MOST_DEPTH, 2**NUMBER_BITS - 1) == 2**63 - 1
    assert version_of(0, 0) == 0


def test_at_depth_0_a_version_is_the_number():
    assert version_of(0, 12345) == 12345


@pytest.mark.parametrize(("depth", "number"), [(MOST_DEPTH + 1, 0), (0, 2**NUMBER_BITS), (0, -1)])
def test_what_has_no_version_is_refused(depth, number):
    with pytest.raises(ValueError, match="version"):
        version_of(depth, number)


def test_a_stream_that_was_sent_back_too_often_is_told_so():
    with pytest.raises(ValueError, match="sent back too often"):
        first_version(MOST_DEPTH + 1)
