"""How long calls and waves may take."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.policies.watchdog import limit_s, loading_s, patience_s

SECONDS = st.floats(0.01, 600)


def test_in_company_a_call_has_twice_the_bins_time_and_alone_its_whole_timeout():
    assert patience_s(0.5, 30.0, shared=True) == 1.0
    assert patience_s(0.5, 30.0, shared=False) == 30.0
    assert (limit_s(0.5, 30.0, shared=True), limit_s(0.5, 30.0, shared=False)) == (20.5, 136.5)


def test_a_worker_has_time_to_start():
    assert limit_s(0.5, 30.0, shared=True, load_s=60.0) == 65.5


def test_a_worker_may_load_for_twice_as_long_as_whoever_deployed_and_a_minute_at_least():
    assert [loading_s(deploy_s) for deploy_s in (5.0, 60.0, 300.0)] == [60.0, 120.0, 600.0]


def test_no_bin_is_so_short_that_a_hiccup_is_a_hang():
    assert patience_s(0.01, 30.0, shared=True) == 0.5


@given(predicted_s=SECONDS, timeout_s=SECONDS, shared=st.booleans())
def test_no_call_has_more_than_its_timeout_and_every_wave_time_for_its_calls(
    predicted_s, timeout_s, shared
):
    patient_s = patience_s(predicted_s, timeout_s, shared=shared)
    assert 0 < patient_s <= timeout_s
    assert limit_s(predicted_s, timeout_s, shared=shared) > predicted_s + patient_s
