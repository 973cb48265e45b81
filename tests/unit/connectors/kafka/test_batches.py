"""Which slices are read together, and what is given of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kafka.batches import first, profile_of, rounds_of, whole
from headrace.connectors.kafka.lane_read import LaneRead
from headrace.connectors.kafka.offsets import span_of
from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.seals import Message as Sent
from headrace.connectors.kafka.seals import sealed
from headrace.model.lane_names import number_of
from headrace.testing.log_contract.rows import piece

KEY = b"of the store"
SLICES = st.lists(
    st.builds(
        lambda topic, start, size: piece(topic, start, start + size),
        st.sampled_from("abc"),
        st.integers(0, 9),
        st.sampled_from([1, 100, 101, 1_000, 1_001, 20_000, 20_001, 60_000]),
    )
)


@given(SLICES)
def test_every_slice_is_read_once(slices):
    read = [cut for together in rounds_of(slices) for cut in together]
    assert sorted(read, key=str) == sorted(slices, key=str)


@given(SLICES)
def test_no_round_has_two_slices_of_a_partition(slices):
    for together in rounds_of(slices):
        assert len({(cut.topic, number_of(cut.lane.name)) for cut in together}) == len(together)


@given(SLICES)
def test_no_round_expects_more_than_fits_or_mixes_sizes_that_are_fetched_otherwise(slices):
    for together in rounds_of(slices):
        sizes = [span_of(cut) for cut in together]
        assert len(sizes) == 1 or sum(sizes) <= 50_000
        assert len({(size <= 100, size <= 1_000) for size in sizes}) == 1
        assert len({profile_of(cut) for cut in together}) == 1


def test_every_size_has_its_fetches():
    assert [profile_of(piece("a", 0, size)) for size in (1, 100, 101, 1_000, 1_001)] == [
        *("small", "small", "middle", "middle", "large")
    ]
    assert [profile_of(piece("a", 0, size)) for size in (20_000, 20_001)] == ["large", "huge"]


def test_a_large_slice_is_alone():
    large, other = piece("a", 0, 20_001), piece("b", 0, 5_000)
    assert rounds_of([large, other]) == [[other], [large]]


def test_small_slices_come_first_and_together():
    small = [piece(f"t{number}", 0, 2) for number in range(1000)]
    assert rounds_of([piece("a", 0, 5000), *small])[0] == small


class Message:
    """A record, sent back for a use case or not."""

    def __init__(self, offset, use_case=None):
        self._offset, self._use_case = offset, use_case

    def offset(self):
        return self._offset

    def headers(self):
        if self._use_case is None:
            return None
        plain, at = Sent(None, None, ()), TopicPartition("t", 0)
        return list(sealed(plain, at, self._use_case.decode(), 1, KEY).headers)

    def timestamp(self):
        return (1, self._offset)

    def key(self):
        return None

    def value(self):
        return None


def lane(*use_cases):
    read = LaneRead(piece("t", 0, len(use_cases)))
    read.held = [Message(offset, use_case) for offset, use_case in enumerate(use_cases)]
    return read


def given_of(batch):
    return batch.records["offset"].to_pylist(), batch.reached


@pytest.mark.parametrize("mine", [None, b"contract"])
def test_what_was_sent_back_for_others_is_read_and_not_given(mine):
    (batch,) = whole([lane(b"others", mine, b"others")], 10, KEY)
    assert given_of(batch) == ([1], 3)
    assert given_of(first(lane(mine, b"others", mine), 2, KEY)) == ([0], 2)


def test_lanes_read_together_are_each_rid_of_what_is_not_theirs():
    batches = whole([lane(None, b"others"), lane(b"others"), lane(b"contract")], 10, KEY)
    assert [given_of(batch) for batch in batches] == [([0], 2), ([], 1), ([0], 1)]


def test_batches_are_cut_before_they_are_filtered_so_that_each_says_how_far_it_reaches():
    batches = whole([lane(b"others", b"others", None, None)], 2, KEY)
    assert [given_of(batch) for batch in batches] == [([], 2), ([2, 3], 4)]
