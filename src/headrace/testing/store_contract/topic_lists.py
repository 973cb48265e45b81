"""What every store must do with lists of topics, as tests; for ``Registry`` and ``Progress``.

One topic of a list can be made again while the others stay. What was recorded of these must still
be done, or an effect of it would be there twice.
"""

# A test's name is its sentence.
# ruff: noqa: D102

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.errors import ConfigError
from headrace.model.places import number_at, place_at
from headrace.model.receipts import SliceError
from headrace.model.records import Failure, LaneStart, Move
from headrace.model.streams import Guarantee, LaneId, Order, Slice, State, Stream, StreamId, Tenant
from headrace.model.topic_lists import id_of_list, listed
from headrace.model.topic_patterns import pattern_text
from headrace.model.waves import Bin, Terms, Wave
from headrace.ports import Store
from headrace.testing.store_contract.begun import SCORE

LIST = replace(SCORE, use_case="both", topic=listed(["{tenant}.visits", "{tenant}.clicks"]))
BOTH = StreamId("both", "acme")
READS = "acme.clicks,acme.visits"
_KINDS = ["lane", "stream"]


def _id(clicks: str, visits: str) -> str:
    return id_of_list({"acme.clicks": clicks, "acme.visits": visits})


def _stream(store: Store) -> Stream:
    return next(one for one in store.registry.streams() if one.id == BOTH)


def _at(store: Store) -> dict[str, int]:
    positions = store.progress.load_positions([BOTH])
    return {one.lane.name: number_at(one.next_offset) for one in positions}


def _begun(store: Store) -> int:
    """A stream of two topics, held."""
    store.registry.deploy(LIST)
    store.registry.add_tenant(Tenant("acme"))
    places = {f"acme.{topic}[0]": place_at(0) for topic in ("clicks", "visits")}
    store.progress.start_lanes([LaneStart(BOTH, _id("c1", "v1"), places)])
    return store.membership.hold([BOTH])[BOTH]


def _slices(epoch: int) -> tuple[Slice, Slice]:
    clicks, visits = (LaneId(*BOTH, f"acme.{topic}[0]") for topic in ("clicks", "visits"))
    return (
        Slice(clicks, READS, place_at(0), place_at(5), epoch),
        Slice(visits, READS, place_at(0), place_at(5), epoch),
    )


class TestTopicLists:
    """The promises about lists of topics."""

    def test_a_tenant_has_one_stream_of_a_list(self, store: Store) -> None:
        store.registry.deploy(LIST)
        store.registry.add_tenant(Tenant("acme"))
        assert _stream(store).topic == READS

    def test_a_list_of_which_two_would_be_one_topic_is_refused_with_the_tenant(
        self, store: Store
    ) -> None:
        odd = replace(LIST, topic=listed(["x-{tenant}", "{tenant}-x"]))
        store.registry.deploy(odd)
        store.registry.add_tenant(Tenant("acme"))
        with pytest.raises(ConfigError, match="of tenant x: it names x-x twice"):
            store.registry.add_tenant(Tenant("x"))
        assert [tenant.name for tenant in store.registry.tenants()] == ["acme"]

    def test_no_topic_of_a_list_is_read_for_two_tenants(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.deploy(LIST)
        for topic in ("acme.clicks", listed(["other", "acme.visits[3]"])):
            with pytest.raises(ConfigError, match="would be of two tenants"):
                store.registry.deploy(replace(SCORE, use_case="all", topic=topic))
        store.registry.deploy(replace(SCORE, use_case="all", topic=listed(["other", "third[1]"])))

    def test_a_list_may_become_longer_and_what_was_read_goes_on(self, store: Store) -> None:
        _begun(store)
        store.registry.add_tenant(Tenant("bolt"))
        store.registry.set_tenant_state("bolt", State.REMOVED)
        revision = store.revision()
        parts = ["{tenant}.visits", "{tenant}.clicks", "{tenant}.wide[3]"]
        store.registry.deploy(replace(LIST, topic=listed(parts)))
        assert _stream(store).topic == f"{READS},acme.wide[3]"
        assert (_at(store), _stream(store).topic_id) == (
            {"acme.clicks[0]": 0, "acme.visits[0]": 0},
            _id("c1", "v1"),
        )
        assert store.revision() != revision
        store.registry.deploy(replace(LIST, topic=listed([*parts[:2], "{tenant}.wide"])))
        store.registry.add_tenant(Tenant("bolt"))
        of = {one.id.tenant: one.topic for one in store.registry.streams()}
        assert of == {f"{name}": f"{name}.clicks,{name}.visits,{name}.wide" for name in of}
        for fewer in (parts[:2], [parts[0], "{tenant}.other", "{tenant}.wide"]):
            with pytest.raises(ConfigError, match="deploy it under another name"):
                store.registry.deploy(replace(LIST, topic=listed(fewer)))
        with pytest.raises(ConfigError, match="deploy it under another name"):
            store.registry.deploy(replace(LIST, topic="{tenant}.visits"))

    def test_a_topic_alone_is_a_list_of_one_that_may_become_longer(self, store: Store) -> None:
        store.registry.deploy(replace(LIST, topic="{tenant}.visits"))
        store.registry.add_tenant(Tenant("acme"))
        store.progress.start_lanes([LaneStart(BOTH, "v1", {"acme.visits[0]": place_at(0)})])
        store.progress.seek(BOTH, {"acme.visits[0]": place_at(3)}, "v2")
        for other in (listed(["{tenant}.other", "{tenant}.clicks"]), "{tenant}.visits[0]"):
            with pytest.raises(ConfigError, match="deploy it under another name"):
                store.registry.deploy(replace(LIST, topic=other))
        store.registry.deploy(LIST)
        assert (_stream(store).topic, _at(store)) == (READS, {"acme.visits[0]": 3})
        # A topic that is made again right then is known for another one.
        assert _stream(store).topic_id == id_of_list({"acme.visits": "v2"})
        assert _stream(store).has_left(_id("c1", "v1"))
        assert not _stream(store).has_left(_id("c1", "v2"))

    def test_a_failure_that_comes_again_in_a_longer_list_is_the_same_one(
        self, store: Store
    ) -> None:
        piece = _slices(_begun(store))[0]
        error = SliceError(
            temporary=False, code="BadRecord", message="it is none", offset=piece.from_offset
        )
        (first,) = store.failures.keep([Failure(piece, error, 1.0, attempts=1)])
        store.failures.retry(first)
        longer = replace(piece, topic=f"{piece.topic},acme.wide")
        again = store.failures.keep([Failure(longer, error, 2.0, attempts=1)])
        assert again == [first]
        assert [one.times for one in store.failures.every(BOTH)] == [2]

    def test_a_list_does_not_become_longer_by_a_topic_of_another_tenant(self, store: Store) -> None:
        _begun(store)
        store.registry.deploy(replace(SCORE, use_case="all", topic="acme.wide"))
        longer = listed(["{tenant}.visits", "{tenant}.clicks", "{tenant}.wide"])
        with pytest.raises(ConfigError, match="would be of two tenants"):
            store.registry.deploy(replace(LIST, topic=longer))
        assert _stream(store).topic == READS
        assert {one.topic for one in store.registry.deployments()} == {LIST.topic, "acme.wide"}

    def test_a_topic_that_comes_to_a_list_is_none_that_was_made_again(self, store: Store) -> None:
        store.registry.deploy(LIST)
        store.registry.add_tenant(Tenant("acme"))
        first, whole = id_of_list({"acme.visits": "v1"}), _id("c1", "v1")
        store.progress.start_lanes([LaneStart(BOTH, first, {"acme.visits[0]": place_at(3)})])
        epoch = store.membership.hold([BOTH])[BOTH]
        wave = Wave("w1", "both", (Bin((_slices(epoch)[1],), 1.0),), 1.0)
        store.progress.record_intent(wave)
        later = LaneStart(BOTH, whole, {"acme.clicks[0]": place_at(0)}, known_id=first, epoch=epoch)
        store.progress.start_lanes([later])
        assert _at(store) == {"acme.visits[0]": 3, "acme.clicks[0]": 0}
        assert (_stream(store).topic_id, _stream(store).left_ids) == (whole, ())
        assert store.progress.pending_intents() == [wave]

    @pytest.mark.parametrize("order", _KINDS)
    @pytest.mark.parametrize("way", ["skip", "seek"])
    def test_of_a_topic_that_was_made_again_alone_is_forgotten_what_was_recorded(
        self, store: Store, way: str, order: str
    ) -> None:
        clicks, visits = _slices(_begun(store))
        terms = Terms(Guarantee.EXACTLY_ONCE, Order(order), "slice", "", intends=True)
        store.progress.record_intent(Wave("w1", "both", (Bin((clicks, visits), 1.0),), 1.0, terms))
        if way == "skip":
            stays = Move(clicks.lane, place_at(0), place_at(0), clicks.epoch)
            assert store.progress.skip_lost(BOTH, [stays], [], _id("c2", "v1")) is not None
        else:
            store.progress.seek(BOTH, {clicks.lane.name: place_at(0)}, _id("c2", "v1"))
        left = [piece for wave in store.progress.pending_intents() for piece in wave.slices]
        # What was merged was one call, and belongs together.
        assert left == ([visits] if order == "lane" else [])
        assert _stream(store).has_left(_id("c1", "v1"))

    def test_what_a_topic_that_stays_passed_over_is_still_told(self, store: Store) -> None:
        clicks, visits = _slices(_begun(store))
        ahead = [Move(one.lane, place_at(0), place_at(4), one.epoch) for one in (clicks, visits)]
        assert store.progress.skip_lost(BOTH, ahead, [], _id("c2", "v1")) is not None
        positions = store.progress.load_positions([BOTH])
        told = {one.lane.name: one.passed_range for one in positions}
        assert told["acme.clicks[0]"] is None
        assert told["acme.visits[0]"] == (place_at(0), place_at(4))

    def test_a_pattern_is_one_stream_of_each_tenant_or_of_all(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        of_each, of_all = pattern_text(r"(?P<tenant>[a-z]{1,9})\.[a-z]+"), pattern_text("all-.*")
        store.registry.deploy(replace(SCORE, use_case="each", topic=of_each, creates_tenants=True))
        store.registry.deploy(replace(SCORE, use_case="all", topic=of_all))
        found = {one.id: one.topic for one in store.registry.streams()}
        assert found == {
            StreamId("each", "acme"): r"acme of (?P<tenant>[a-z]{1,9})\.[a-z]+",
            StreamId("all", "everyone"): "all of all-.*",
        }
        creates = {one.use_case: one.creates_tenants for one in store.registry.deployments()}
        assert creates == {"each": True, "all": False}

    def test_of_topics_that_a_pattern_matches_it_is_told_whose_they_are(self, store: Store) -> None:
        store.registry.add_tenant(Tenant("acme"))
        store.registry.add_tenant(Tenant("acme-eu"))
        store.registry.deploy(replace(SCORE, use_case="eu", topic="{tenant}-eu.visits"))
        pattern = pattern_text(r"(?P<tenant>[a-z-]+)\.(visits|clicks)")
        store.registry.deploy(replace(SCORE, use_case="each", topic=pattern))
        ours = StreamId("each", "acme-eu")
        theirs = StreamId("each", "acme")
        wanted = {ours: ["acme-eu.clicks", "acme-eu.visits"], theirs: ["acme.visits"]}
        told = store.registry.why_shared(wanted)
        assert {stream: set(why) for stream, why in told.items()} == {ours: {"acme-eu.visits"}}
        assert (
            "would be of two tenants: of acme-eu as use case each" in told[ours]["acme-eu.visits"]
        )
        assert store.registry.why_shared({}) == {}
        with pytest.raises(ConfigError, match="would be of two tenants"):
            store.registry.deploy(replace(SCORE, use_case="more", topic="{tenant}-eu.clicks"))

    def test_a_topic_is_forgotten_with_its_lanes_under_the_epoch_and_is_then_a_new_one(
        self, store: Store
    ) -> None:
        epoch = _begun(store)
        gone = (["acme.clicks[0]"], ["acme.clicks"])
        assert not store.progress.forget_lanes(BOTH, gone[0], epoch - 1, gone[1])
        assert _stream(store).topic_id == _id("c1", "v1")
        assert store.progress.forget_lanes(BOTH, gone[0], epoch, gone[1])
        assert _at(store) == {"acme.visits[0]": 0}
        known = id_of_list({"acme.visits": "v1"})
        assert (_stream(store).topic_id, _stream(store).epoch) == (known, epoch)
        assert not _stream(store).has_left(_id("c2", "v1"))

    @pytest.mark.parametrize("again", [False, True])
    def test_a_topic_of_a_forgotten_name_is_deeper_than_that_was(
        self, store: Store, again: bool
    ) -> None:
        epoch = _begun(store)

        def depths() -> dict[str, int]:
            found = store.progress.load_positions([BOTH])
            return {position.lane.name: position.depth for position in found}

        for times in range(1, 4):
            assert store.progress.forget_lanes(BOTH, ["acme.clicks[0]"], epoch, ["acme.clicks"])
            if again and times == 3:
                store.registry.set_stream_state(BOTH, State.REMOVED)
                store.registry.add_stream(BOTH)
            known = _stream(store).topic_id
            start = LaneStart(BOTH, _id("c2", "v1"), {"acme.clicks[0]": place_at(0)})
            store.progress.start_lanes([replace(start, known_id=known)])
            deeper = times + 1 if again and times == 3 else times
            assert depths()["acme.clicks[0]"] == deeper
        assert depths().get("acme.visits[0]", 0) == 0

    def test_a_stream_that_is_added_again_may_have_its_topics_again(self, store: Store) -> None:
        _begun(store)
        store.progress.seek(BOTH, {"acme.clicks[0]": place_at(0)}, _id("c2", "v1"))
        store.registry.set_stream_state(BOTH, State.REMOVED)
        store.registry.add_stream(BOTH)
        again = _stream(store)
        assert again.topic_id is None
        assert not again.has_left(_id("c2", "v1"))
        assert again.has_left(_id("c1", "v9"))
