"""What is told of effects that are made again."""

from headrace.operating.repeats import repeated
from headrace.sinks import HBaseTable, KafkaTopic


def test_of_an_hbase_table_what_stays_is_told_for_deletes_and_for_nulls():
    columns = {"id": "text", "size": "bigint"}
    sink = HBaseTable("leads", columns, key=("id",), newest_by="size", at="entities")
    assert repeated(sink) == (
        "table leads: rows that are as new as those there, or newer, replace them; of what is as "
        "new a delete stays, and so does a null"
    )


def test_of_a_sink_that_somebody_made_of_ours_the_same_is_told():
    class OwnTopic(KafkaTopic):
        pass

    assert repeated(OwnTopic("own")) == repeated(KafkaTopic("own")) != ""
