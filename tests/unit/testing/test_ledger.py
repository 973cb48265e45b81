"""The ledger finds what was planted."""

import pytest

from headrace.testing.ledger import Found, Ledger, Place, runs


def place(offset, topic="acme.visits", partition=0):
    return Place(topic, partition, offset)


@pytest.fixture
def ledger():
    made = Ledger()
    for tenant in ("acme", "bolt"):
        made.topic(tenant, f"{tenant}.visits")
        for offset in range(10):
            made.acknowledged(place(offset, f"{tenant}.visits"))
    return made


def clean(ledger):
    return [Found(sent.topic.partition(".")[0], sent) for sent in sorted(ledger.sent)]


def test_what_is_right_is_clean(ledger):
    verdict = ledger.judge(clean(ledger))
    assert verdict.clean
    assert str(verdict) == "of 20 records: 0 lost; 0 twice; 0 foreign; 0 out of order"


def test_a_planted_loss_is_found(ledger):
    found = clean(ledger)
    del found[3]
    verdict = ledger.judge(found)
    assert verdict.lost == (place(3),)
    assert not verdict.clean


def test_planted_duplicates_are_found_as_often_as_they_are_too_many(ledger):
    found = clean(ledger)
    verdict = ledger.judge([*found, found[4], found[4]])
    assert verdict.twice == (place(4), place(4))
    assert not verdict.out_of_order


def test_a_planted_exchange_is_found(ledger):
    found = clean(ledger)
    found[2], found[3] = found[3], found[2]
    assert ledger.judge(found).out_of_order == (place(2),)


def test_lanes_have_no_order_among_each_other(ledger):
    found = clean(ledger)
    assert ledger.judge([*found[10:], *found[:10]]).clean


def test_another_tenants_effect_is_found(ledger):
    found = clean(ledger)
    found[0] = Found("bolt", found[0].place)
    verdict = ledger.judge(found)
    assert verdict.foreign == (Found("bolt", place(0)),)
    assert verdict.lost == (place(0),)


def test_a_topic_that_nobody_sent_to_is_foreign(ledger):
    stray = Found("acme", place(0, "other.visits"))
    assert ledger.judge([*clean(ledger), stray]).foreign == (stray,)


def test_what_was_never_acknowledged_may_be_there_once(ledger):
    late = Found("acme", place(10))
    assert ledger.judge([*clean(ledger), late]).clean
    assert ledger.judge([*clean(ledger), late, late]).twice == (place(10),)


def test_only_some_are_named(ledger):
    text = str(ledger.judge([]))
    assert text.startswith("of 20 records: 20 lost (acme.visits[0]@0, ")
    assert "…" in text


def test_runs_are_unbroken_offsets_of_one_lane():
    places = [place(1), place(2), place(4), place(5, partition=1), place(3, "bolt.visits")]
    assert runs(places) == [
        (place(1), place(2)),
        (place(4), place(4)),
        (place(5, partition=1), place(5, partition=1)),
        (place(3, "bolt.visits"), place(3, "bolt.visits")),
    ]
