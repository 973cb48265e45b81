"""Waves to JSON and back."""

import json

from hypothesis import given, settings
from hypothesis import strategies as some

from headrace.model.streams import BadRecordPolicy, Guarantee, LaneId, Order, Slice
from headrace.model.waves import Bin, Terms, Wave
from headrace.store.intents import from_json, to_json

offsets = some.integers(0, 2**63 - 1)
seconds = some.floats(min_value=0)
lanes = some.builds(LaneId, some.text(), some.text(), some.integers(0, 2**31 - 1))
slices = some.builds(Slice, lanes, some.text(), offsets, offsets, offsets, some.booleans())
bins = some.builds(Bin, some.lists(slices, max_size=3).map(tuple), seconds)
guarantees, orders = some.sampled_from(Guarantee), some.sampled_from(Order)
policies = some.none() | some.sampled_from(BadRecordPolicy)
terms = some.builds(
    Terms, guarantees, orders, some.text(), some.text(), some.booleans(), bad_record=policies
)
waves = some.builds(
    Wave,
    some.text(),
    some.text(),
    some.lists(bins, max_size=3).map(tuple),
    seconds,
    some.none() | terms,
    some.lists(some.text()).map(tuple),
    some.booleans(),
).filter(lambda wave: wave.bins or (wave.terms, wave.turn, wave.taken) == (None, (), False))


@settings(max_examples=15, deadline=None)
@given(waves)
def test_a_wave_comes_back_equal_and_of_the_same_types(wave):
    kept = from_json(to_json(wave))
    assert kept == wave
    assert repr(kept) == repr(wave)


def test_a_turn_of_many_is_written_down_once_for_all_bins():
    bins = (Bin((Slice(LaneId("score", "a", "t[0]"), "t", 0, 5, 1),), 1.0),) * 3
    wave = Wave("w", "score", bins, 1.0, turn=("acme", "bolt"), taken=True)
    assert to_json(wave).count("acme") == 1
    assert set(json.loads(to_json(wave))) == {"id", "use_case", "bins", "budget_s"}


def test_a_turn_is_read_from_whichever_bin_has_it():
    """An earlier version wrote it into all of them."""
    bins = (Bin((Slice(LaneId("score", "a", "t[0]"), "t", 0, 5, 1),), 1.0),) * 2
    kept = json.loads(to_json(Wave("w", "score", bins, 1.0)))
    kept["bins"][1]["turn"] = ["a"]
    assert from_json(json.dumps(kept)).turn == ("a",)


def test_what_an_earlier_version_wrote_down_has_no_terms_and_no_fences():
    wave = Wave(
        "w", "score", (Bin((Slice(LaneId("score", "a", "t[0]"), "t", 0, 5, 1),), 1.0),), 1.0
    )
    kept = json.loads(to_json(wave))
    del kept["bins"][0]["fence"]
    assert from_json(json.dumps(kept)) == wave


def test_an_earlier_version_can_read_what_this_one_writes_down():
    """It takes a wave's keys for fields of its own, and of a bin those that it knows."""
    sink = "ParquetFiles(folder='x')"
    bad = BadRecordPolicy.DEAD_LETTER
    chosen = Terms(Guarantee.EXACTLY_ONCE, Order.LANE, "slice", sink, True, "/warehouse", bad)
    wave = Wave(
        "w", "score", (Bin((Slice(LaneId("score", "a", "t[0]"), "t", 0, 5, 1),), 1.0),), 1, chosen
    )
    kept = json.loads(to_json(wave))
    assert set(kept) == {"id", "use_case", "bins", "budget_s"}
    assert set(kept["bins"][0]["terms"]) == {"guarantee", "order", "form", "sink", "intends"}
    assert from_json(json.dumps(kept)) == wave
