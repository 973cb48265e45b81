"""What every log must tell, as tests; for ``Log``.

Where a log begins and ends decides what is planned, so offsets are asked for at their edges.
"""

# A law's name is its documentation.
# ruff: noqa: D102

from __future__ import annotations

from headrace.model.lane_names import named
from headrace.model.places import OPEN
from headrace.ports import Log
from headrace.testing.log_contract.rows import Topics, numbered


class TestLog:
    """The laws of ``headrace.ports.Log``."""

    def test_topics_that_exist_are_told_with_id_and_lanes(self, topics: Topics, log: Log) -> None:
        name = topics.make(partitions=3)
        found = log.topics([name, "nobody-made-this"])
        assert set(found) == {name}
        assert found[name].lanes == tuple(named(name, number) for number in range(3))
        assert found[name].topic_id

    def test_all_topics_are_named_until_they_are_deleted(self, topics: Topics, log: Log) -> None:
        one, two = topics.make(), topics.make(partitions=2)
        assert {one, two} <= set(log.all_topics())
        topics.delete(one)
        assert {one, two} & set(log.all_topics()) == {two}

    def test_two_topics_have_two_ids_and_an_id_stays(self, topics: Topics, log: Log) -> None:
        one, two = topics.make(), topics.make()
        ids = log.topics([one, two])
        assert ids[one].topic_id != ids[two].topic_id
        assert log.topics([one])[one] == ids[one]

    def test_end_is_the_offset_after_the_last_record(self, topics: Topics, log: Log) -> None:
        name = topics.make(partitions=2)
        topics.write(name, 1, numbered(5))
        lanes = [named(name, 0), named(name, 1)]
        assert log.end_offsets(lanes) == {lanes[0]: 0, lanes[1]: 5}

    def test_it_says_of_every_lane_where_it_ends(self, topics: Topics, log: Log) -> None:
        name = topics.make(partitions=2)
        lanes = [named(name, 0), named(name, 1)]
        assert log.tells_ends
        assert OPEN not in log.end_offsets(lanes).values()

    def test_start_is_the_first_offset_left(self, topics: Topics, log: Log) -> None:
        name = topics.make()
        topics.write(name, 0, numbered(5))
        lane = named(name, 0)
        assert log.start_offsets([lane]) == {lane: 0}
        topics.expire(name, 0, 3)
        assert log.start_offsets([lane]) == {lane: 3}
        assert log.end_offsets([lane]) == {lane: 5}

    def test_offsets_of_an_aborted_transaction_count_to_the_end(
        self, topics: Topics, log: Log
    ) -> None:
        name = topics.make()
        topics.write(name, 0, numbered(2))
        topics.abort(name, 0, records=3)
        lane = named(name, 0)
        assert log.end_offsets([lane]) == {lane: 6}

    def test_offset_at_a_time_is_the_first_record_not_older(self, topics: Topics, log: Log) -> None:
        name = topics.make()
        topics.write(name, 0, numbered(5, first=100))
        lane = named(name, 0)
        assert log.offsets_at([lane], 102.0) == {lane: 2}
        assert log.offsets_at([lane], 102.5) == {lane: 3}
        assert log.offsets_at([lane], 0.0) == {lane: 0}

    def test_offset_after_the_last_record_is_the_end(self, topics: Topics, log: Log) -> None:
        name = topics.make()
        topics.write(name, 0, numbered(5, first=100))
        lane = named(name, 0)
        assert log.offsets_at([lane], 105.0) == {lane: 5}

    def test_what_is_not_there_is_left_out_and_the_rest_is_told(
        self, topics: Topics, log: Log
    ) -> None:
        name = topics.make()
        topics.write(name, 0, numbered(1))
        lane = named(name, 0)
        strangers = [
            named("nobody-made-this", 0),
            named(name, 7),
            named("not a name!", 0),
            f"{name}[00]",
            name,
            "",
        ]
        assert log.end_offsets([lane, *strangers]) == {lane: 1}
        assert log.start_offsets([*strangers, lane]) == {lane: 0}
        assert log.offsets_at([*strangers, lane], 0.0) == {lane: 0}
        assert log.end_offsets(strangers) == {}

    def test_what_is_doubted_is_told_anew(self, topics: Topics, log: Log) -> None:
        name = topics.make()
        lanes = [named(name, 0), named(topics.make(), 0)]
        topics.write(name, 0, numbered(3))
        for _ in range(2):
            log.doubt([lanes[0], named("no.such.topic", 0)])
            assert log.end_offsets(lanes) == {lanes[0]: 3, lanes[1]: 0}
            assert log.start_offsets(lanes) == dict.fromkeys(lanes, 0)

    def test_nothing_asked_is_nothing_told(self, log: Log) -> None:
        assert log.topics([]) == {}
        assert log.end_offsets([]) == {}
        assert log.offsets_at([], 1.0) == {}

    def test_what_is_surely_not_there_is_told(self, topics: Topics, log: Log) -> None:
        name = topics.make()
        assert set(log.absent([name, "nobody-made-this"])) == {"nobody-made-this"}
        assert not log.absent([name])
        assert not log.absent([])
        topics.delete(name)
        assert set(log.absent([name])) == {name}

    def test_a_deleted_topic_is_left_out(self, topics: Topics, log: Log) -> None:
        name = topics.make()
        assert name in log.topics([name])
        topics.delete(name)
        assert log.topics([name]) == {}
