"""How long calls and waves may take."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.policies.watchdog import limit_s, patience_s

SECONDS = st.floats(0.01, 600)


def test_in_company_a_call_has_a_few_budgets_and_alone_its_whole_timeout():
    assert patience_s(1.0, 30.0, shared=True) == 5.0
    assert patience_s(1.0, 30.0, shared=False) == 30.0
    assert (limit_s(1.0, 30.0, shared=True), limit_s(1.0, 30.0, shared=False)) == (36.0, 136.0)


def test_the_express_is_not_so_short_that_a_hiccup_is_a_hang():
    assert patience_s(0.1, 30.0, shared=True) == 1.0


@given(budget_s=SECONDS, timeout_s=SECONDS, shared=st.booleans())
def test_no_call_has_more_than_its_timeout_and_every_wave_time_for_its_calls(
    budget_s, timeout_s, shared
):
    patient_s = patience_s(budget_s, timeout_s, shared=shared)
    assert 0 < patient_s <= timeout_s
    assert limit_s(budget_s, timeout_s, shared=shared) > budget_s + patient_s
