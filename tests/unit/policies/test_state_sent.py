"""A seek leaves no state behind that is of records which come again."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.errors import ConfigError
from headrace.model.buckets import Bucket, whole_lane
from headrace.model.lane_names import named
from headrace.model.places import place_at
from headrace.model.streams import StreamId
from headrace.policies.state_sent import forgotten

STREAM = StreamId("seen", "acme")
NAMES = [named("acme.visits", number) for number in range(3)]
at = some.dictionaries(some.sampled_from(NAMES), some.integers(0, 9).map(place_at))
parts = some.sets(some.sampled_from(NAMES))


@given(parts, at, at, some.booleans())
def test_what_goes_back_has_no_state_there_or_the_seek_is_refused(parts, before, offsets, forget):
    back = {
        whole_lane(name)
        for name, offset in offsets.items()
        if name not in before or offset < before[name]
    } & parts
    try:
        gone = forgotten(STREAM, parts, before, offsets, (), forget=forget)
    except ConfigError:
        assert back
        assert not forget
        return
    assert back <= gone
    assert gone <= parts & {whole_lane(name) for name in offsets}
    assert forget or not gone


def test_a_topic_that_is_another_now_has_no_state_of_any_place():
    stands = {NAMES[0]: place_at(3)}
    with pytest.raises(ConfigError, match="--forget-state"):
        forgotten(STREAM, NAMES, stands, stands, {"acme.visits"}, forget=False)


def test_buckets_of_one_lane_begin_anew_together():
    buckets = [Bucket(NAMES[0], number, 2).name for number in range(2)]
    stands = dict.fromkeys(buckets, place_at(3))
    with pytest.raises(ConfigError, match="seek all of them together"):
        forgotten(STREAM, NAMES, stands, {buckets[0]: place_at(0)}, (), forget=True)
