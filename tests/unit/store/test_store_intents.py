"""Waves to JSON and back."""

from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.model.streams import LaneId, Slice
from headrace.model.waves import Bin, Wave
from headrace.store.intents import from_json, to_json

offsets = some.integers(0, 2**63 - 1)
seconds = some.floats(min_value=0)
lanes = some.builds(LaneId, some.text(), some.text(), some.integers(0, 2**31 - 1))
slices = some.builds(Slice, lanes, some.text(), offsets, offsets, offsets, some.booleans())
bins = some.builds(Bin, some.lists(slices, max_size=3).map(tuple), seconds)
waves = some.builds(
    Wave, some.text(), some.text(), some.lists(bins, max_size=3).map(tuple), seconds
)


@settings(max_examples=15, deadline=None)
@given(waves)
def test_a_wave_comes_back_equal_and_of_the_same_types(wave):
    kept = from_json(to_json(wave))
    assert kept == wave
    assert repr(kept) == repr(wave)
