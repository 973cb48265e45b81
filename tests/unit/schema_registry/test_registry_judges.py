"""Those who look at schemas, in processes of their own."""

import pytest

from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry.judges import JudgesApart, JudgesBusy
from headrace.schema_registry.rules.compatibility import Level
from headrace.schema_registry.rules.texts import BadSchema, Compared

GOOD, BAD = WrittenSchema(SchemaKind.AVRO, '"int"'), WrittenSchema(SchemaKind.AVRO, "{")


def test_a_judge_that_takes_too_long_is_ended_and_another_one_goes_on():
    judges = JudgesApart(1)
    try:
        assert judges.form(GOOD).canonical == '"int"'
        with pytest.raises(BadSchema, match="not JSON"):
            judges.form(BAD)
        assert judges.faults(GOOD, [Compared(1, GOOD)], Level.FULL) == []
        judges._deadline_s = 0.0
        with pytest.raises(BadSchema, match="longer than"):
            judges.form(GOOD)
        assert judges.form(GOOD).canonical == '"int"'
        with pytest.raises(BadSchema, match="room"):
            end_and_ask(judges)
        assert judges.form(GOOD).canonical == '"int"'
    finally:
        judges.close()


def end_and_ask(judges):
    judge = judges._free.queue[-1]
    judge._process.kill()
    judge._process.join()
    judges.form(GOOD)


def test_a_tenant_has_one_judge_at_a_time():
    judges = JudgesApart(2, wait_s=0.01)
    try:
        with judges._one_of("acme"), pytest.raises(JudgesBusy, match="acme"):
            judges.form(GOOD, "acme")
        with judges._judge(), judges._judge(), pytest.raises(JudgesBusy):
            judges.form(GOOD, "bolt")
        judges.form(GOOD, "acme")
    finally:
        judges.close()
