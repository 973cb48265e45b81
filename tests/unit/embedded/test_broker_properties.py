"""The configuration of a one-machine broker."""

from pathlib import Path

from headrace.embedded.broker_properties import as_text, broker_properties


def test_the_broker_listens_on_this_machine_only():
    made = broker_properties(Path("/data"), 9092, 9093, {})
    assert made["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert made["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"


def test_given_properties_win():
    made = broker_properties(Path("/data"), 1, 2, {"num.partitions": "7", "own": "x"})
    assert (made["num.partitions"], made["own"]) == ("7", "x")


def test_what_java_would_read_otherwise_is_escaped():
    assert as_text({"a b": "c:\\d = ü\n"}) == "a b=c:\\u005cd = \\u00fc\\u000a\n"
