"""In which log a topic is, told by its name."""

import pytest

from headrace.model.lane_names import spoken
from headrace.model.topic_names import connection_of, own_name, problem_of, within


@pytest.mark.parametrize(
    ("topic", "connection", "own"),
    [
        ("acme.visits", None, "acme.visits"),
        ("clicks:acme.visits", "clicks", "acme.visits"),
        ("clicks:{tenant}.visits", "clicks", "{tenant}.visits"),
        ("clicks:acme.visits[3]", "clicks", "acme.visits[3]"),
        ("acme.visits,acme.leads[3]", None, "acme.visits,acme.leads[3]"),
        ("all of (?:clicks|views)-.*", None, "all of (?:clicks|views)-.*"),
        ("acme of clicks:(?P<tenant>.*)", None, "acme of clicks:(?P<tenant>.*)"),
    ],
)
def test_a_connection_stands_in_front_of_what_is_not_kafkas(topic, connection, own):
    assert connection_of(topic) == connection
    assert own_name(topic) == own
    assert connection is None or within(connection, own) == topic


@pytest.mark.parametrize(
    "topic",
    ["impressions", "{tenant}.visits", "clicks:impressions", "eu-1.clicks:{tenant}.visits"],
)
def test_topics_may_be_called_so(topic):
    assert problem_of(topic) is None


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("{tenant}:visits", "the name of a connection, the same one for all tenants"),
        (":visits", "the name of a connection"),
        ("cl icks:visits", "the name of a connection"),
        ("clicks:", "a name is 1 to 249"),
        ("clicks:{tenant} visits", "a name is 1 to 249"),
        ("clicks:a:b", "a name is 1 to 249"),
        ("..", "a name is 1 to 249"),
    ],
)
def test_others_may_not(topic, why):
    assert why in problem_of(topic)


def test_a_lane_that_is_not_kafkas_is_a_shard():
    assert spoken("clicks:acme.visits[3]") == "shard 3"
    assert spoken("acme.visits[3]") == "partition 3"
