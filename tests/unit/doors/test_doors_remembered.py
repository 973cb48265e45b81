"""The place for what was looked up is bounded."""

from headrace.doors.remembered import Remembered


def test_the_oldest_goes_when_there_are_too_many():
    remembered = Remembered(most=2)
    for at_s, name in enumerate("abac"):
        remembered.put(name, name.upper(), float(at_s))
    assert [remembered.get(known) for known in "abc"] == [("A", 2.0), None, ("C", 3.0)]
    remembered.drop("a")
    remembered.drop("a")
    assert remembered.get("a") is None
