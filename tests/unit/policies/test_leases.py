"""Who plans which streams."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.records import Peer
from headrace.model.streams import StreamId
from headrace.policies.leases import PeerSilence, dead, may_inherit, share, watched

LEASE_S = 10.0


def peer(name, beats=0, number=1, use_cases=("score",)):
    return Peer(name, number, beats, frozenset(use_cases))


def streams(count, holder=None, use_case="score"):
    return {StreamId(use_case, f"t{number:03}"): holder for number in range(count)}


def test_the_worked_example():
    peers = [peer("a"), peer("b"), peer("c")]
    fair = [len(share(name, peers, streams(10)).take) for name in "abc"]
    assert fair == [3, 3, 4]
    held = dict(zip(streams(10), "aaabbbaaaa", strict=True))
    living = [peer("a"), peer("b")]
    assert len(share("a", living, held).give) == 2
    assert not share("b", living, held).take
    for stream in share("a", living, held).give:
        held[stream] = None
    assert len(share("b", living, held).take) == 2


def test_who_counts_is_alive_however_long_it_is():
    seen = {}
    for beats in range(100):
        seen = watched(seen, [peer("a", beats)], 9.0)
    assert dead("me", seen, LEASE_S) == []


def test_who_does_not_count_is_dead_after_a_lease_of_looking():
    seen = watched({}, [peer("a")], 9.0)
    for _ in range(4):
        assert dead("me", seen, LEASE_S) == []
        seen = watched(seen, [peer("a")], 3.0)
    assert [driver.name for driver in dead("me", seen, LEASE_S)] == ["a"]


def test_a_restart_under_the_same_name_is_a_sign_of_life():
    seen = {"a": PeerSilence(peer("a", beats=0, number=1), 9.0)}
    assert watched(seen, [peer("a", beats=0, number=2)], 3.0)["a"].silent_s == 0.0


def test_nobody_takes_himself_for_dead():
    seen = {"me": PeerSilence(peer("me"), 100.0)}
    assert dead("me", seen, LEASE_S) == []


def test_only_who_has_all_its_use_cases_inherits():
    assert may_inherit(peer("a", use_cases=["x", "y"]), peer("b", use_cases=["x"]))
    assert not may_inherit(peer("a", use_cases=["x"]), peer("b", use_cases=["x", "y"]))


def test_a_rerun_that_the_heir_has_not_taken_up_keeps_nobody_from_inheriting():
    assert may_inherit(peer("a", use_cases=["x"]), peer("b", use_cases=["x", "x~1"]))
    assert not may_inherit(peer("a", use_cases=["x"]), peer("b", use_cases=["x", "y~1"]))


def test_a_use_case_is_shared_by_those_that_have_it():
    peers = [peer("a", use_cases=["score", "mail"]), peer("b", use_cases=["mail"])]
    holders = {**streams(4), **streams(4, use_case="mail")}
    taken = share("a", peers, holders).take
    assert len([stream for stream in taken if stream.use_case == "score"]) == 4
    assert len([stream for stream in taken if stream.use_case == "mail"]) == 2
    assert {stream.use_case for stream in share("b", peers, holders).take} == {"mail"}


@given(
    holders=st.lists(st.sampled_from([None, "a", "b", "c", "gone"]), max_size=30),
    names=st.sets(st.sampled_from("abc"), min_size=1),
)
def test_it_comes_to_rest_with_every_free_stream_taken_and_shares_that_differ_by_one(
    holders, names
):
    living = [peer(name) for name in sorted(names)]
    held = {
        stream: None if holder not in names else holder
        for stream, holder in zip(streams(len(holders)), holders, strict=True)
    }
    for _ in range(3):
        for name in sorted(names):
            wish = share(name, living, held)
            assert all(held[stream] == name for stream in wish.give)
            assert all(held[stream] is None for stream in wish.take)
            held |= dict.fromkeys(wish.give) | dict.fromkeys(wish.take, name)
    counts = [list(held.values()).count(name) for name in names]
    assert sum(counts) == len(held)
    assert max(counts) - min(counts) <= 1
    assert all(not any((w.take, w.give)) for w in (share(n, living, held) for n in names))
