"""Records of the Kinesis Producer Library are taken apart, and broken ones are told."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.kinesis.aggregated import (
    MAGIC,
    Broken,
    Part,
    are_at_home,
    hash_key_of,
    is_aggregated,
    put_together,
    taken_apart,
)
from headrace.connectors.kinesis.shards import HashRange

PARTS = st.lists(
    st.builds(
        Part, st.text(max_size=9), st.binary(max_size=20), st.none() | st.integers(0, 2**128 - 1)
    )
).map(tuple)


def sealed(body):
    return MAGIC + body + hashlib.md5(body).digest()


@given(PARTS)
def test_what_was_put_together_is_taken_apart(parts):
    whole = put_together(parts)
    assert is_aggregated(whole)
    assert taken_apart(whole) == parts


def test_it_is_what_the_library_sends():
    """By hand, from ``aggregation-format.md``: two keys, a hash key, two records, a tag."""
    body = b"\x0a\x01a\x0a\x01b\x12\x0242"
    body += b"\x1a\x06\x08\x00\x1a\x02v1\x1a\x0d\x08\x01\x10\x00\x1a\x02v2\x22\x03\x0a\x01t"
    assert taken_apart(sealed(body)) == (Part("a", b"v1"), Part("b", b"v2", 42))


@pytest.mark.parametrize(
    ("whole", "why"),
    [
        (MAGIC, "cut short"),
        (MAGIC + b"x" * 15, "cut short"),
        (MAGIC + b"x" * 40, "checksum"),
        (put_together((Part("a", b"v"),))[:-1], "checksum"),
        (sealed(b"\x0a\x7fa"), "no message"),
        (sealed(b"\x0a\x01a\x1a\x02\x08\x00"), "a field is missing"),
        (sealed(b"\x1a\x06\x08\x05\x1a\x02v1"), "a key that it does not have"),
        (sealed(b"\x0a\x01a\x12\x01x\x1a\x08\x08\x00\x10\x00\x1a\x02v1"), "a key that it does not"),
    ],
)
def test_a_broken_one_says_why(whole, why):
    with pytest.raises(Broken, match=why):
        taken_apart(whole)


def test_one_that_has_a_record_of_another_shard_is_not_at_home():
    low, high = HashRange(0, 2**127 - 1), HashRange(2**127, 2**128 - 1)
    inside = Part("k", b"v")
    there = low if hash_key_of("k") in low else high
    elsewhere = high if there is low else low
    assert are_at_home((inside,), there)
    assert not are_at_home((inside,), elsewhere)
    assert not are_at_home((inside, Part("k", b"v", elsewhere.first)), there)
    assert are_at_home((Part("k", b"v", elsewhere.last),), elsewhere)
