"""Which slices are read together."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.kafka.batches import rounds_of
from headrace.testing.log_contract import piece

SLICES = st.lists(
    st.builds(
        lambda topic, start, size: piece(topic, start, start + size),
        st.sampled_from("abc"),
        st.integers(0, 9),
        st.sampled_from([1, 100, 101, 20_000, 20_001, 60_000]),
    )
)


@given(SLICES)
def test_every_slice_is_read_once(slices):
    read = [each for together in rounds_of(slices) for each in together]
    assert sorted(read, key=str) == sorted(slices, key=str)


@given(SLICES)
def test_no_round_has_two_slices_of_a_partition(slices):
    for together in rounds_of(slices):
        assert len({(each.topic, each.lane.partition) for each in together}) == len(together)


@given(SLICES)
def test_no_round_expects_more_than_fits_or_mixes_small_with_large(slices):
    for together in rounds_of(slices):
        sizes = [each.size for each in together]
        assert len(sizes) == 1 or sum(sizes) <= 50_000
        assert len({size <= 100 for size in sizes}) == 1


def test_a_large_slice_is_alone():
    large, other = piece("a", 0, 20_001), piece("b", 0, 500)
    assert rounds_of([large, other]) == [[large], [other]]


def test_small_slices_come_first_and_together():
    small = [piece(f"t{each}", 0, 2) for each in range(1000)]
    assert rounds_of([piece("a", 0, 5000), *small])[0] == small
