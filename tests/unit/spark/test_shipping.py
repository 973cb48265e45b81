"""What is sent to executors, and the same under other terms."""

from dataclasses import replace

import cloudpickle

from headrace.model.streams import Guarantee, Order
from headrace.sinks import ParquetFiles
from headrace.spark.shipping import code_of, differs_in_terms_alone, under_terms
from headrace.use_cases import use_case


def made(answer="a"):
    def handler(_table, _context):
        return answer

    return use_case(topic="{tenant}.visits", sink=ParquetFiles("x"), name="one")(handler)


def test_code_that_was_made_before_is_the_same_use_case_under_other_terms():
    before = made()
    other = replace(before, order=Order.STREAM, guarantee=Guarantee.EXACTLY_ONCE)
    loaded = cloudpickle.loads(under_terms(code_of(before), other))
    assert (loaded.order, loaded.guarantee) == (Order.STREAM, Guarantee.EXACTLY_ONCE)
    assert loaded(None, None) == "a"
    assert loaded.terms == other.terms


def test_code_is_used_again_only_where_nothing_but_terms_is_other():
    before = made()
    assert differs_in_terms_alone(replace(before, order=Order.STREAM), before)
    assert not differs_in_terms_alone(made(), before)
    assert not differs_in_terms_alone(replace(before, sink=ParquetFiles("y")), before)


def test_where_nothing_is_sent_nothing_is_put_around_it():
    assert under_terms(b"", made()) == b""
