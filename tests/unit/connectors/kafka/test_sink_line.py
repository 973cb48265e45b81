"""What a producer of the Kafka sink says, and to whom."""

from headrace.connectors.kafka.config import sink_config
from headrace.connectors.kafka.sink_line import TopicProducer

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


def test_a_broker_that_is_away_is_not_told_on_stderr(capfd):
    line = TopicProducer(sink_config(NOWHERE))
    line.producer.poll(0.3)
    assert capfd.readouterr().err == ""


def test_who_wants_to_see_what_the_client_says_can(capfd):
    line = TopicProducer(sink_config({**NOWHERE, "log_level": "7"}))
    said = ""
    while "Connection refused" not in said:  # once it has tried
        line.producer.poll(0.1)
        said += capfd.readouterr().err
