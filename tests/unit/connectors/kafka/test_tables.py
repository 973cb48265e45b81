"""Which records of a table are for whom."""

import pyarrow as pa
import pytest

from headrace.connectors.kafka.partitions import TopicPartition
from headrace.connectors.kafka.seals import Message as Sent
from headrace.connectors.kafka.seals import sealed
from headrace.connectors.kafka.tables import for_use_case, has_redriven, table_of
from headrace.ports import RECORD_SCHEMA

MARK = "headrace.redrive.use-case"
KEY = b"of the store"


class Message:
    """A record with headers."""

    def __init__(self, offset, headers):
        self._offset, self._headers = offset, headers

    def offset(self):
        return self._offset

    def headers(self):
        return self._headers

    def timestamp(self):
        return (1, self._offset)

    def key(self):
        return None

    def value(self):
        return b"v"


def table(*headers):
    return table_of([("t", 0, [Message(offset, given) for offset, given in enumerate(headers)])])


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ([], False),
        ([None, None], False),
        ([None, [("trace", b"1")]], False),
        ([[("trace", MARK.encode())]], False),
        ([None, [("trace", None), (MARK, b"pages")], None], True),
    ],
)
def test_a_table_is_searched_for_records_that_were_sent_back(headers, answer):
    assert has_redriven(table(*headers)) is answer


def test_a_search_keeps_to_its_part_of_a_table():
    whole = pa.concat_tables([table([(MARK, b"pages")], None), table(None, [("trace", b"1")])])
    assert has_redriven(whole)
    assert not has_redriven(whole.slice(1))


def sent_back(use_case, topic="t"):
    message = Sent(None, b"v", (("trace", b"1"),))
    return list(sealed(message, TopicPartition(topic, 0), use_case, 1, KEY).headers)


def test_a_record_sent_back_is_for_its_use_case_alone():
    found = table(None, sent_back("pages"), sent_back("bills"), [("trace", b"1")], None)
    assert for_use_case(found, "pages", KEY)["offset"].to_pylist() == [0, 1, 3, 4]
    assert for_use_case(found, "bills", KEY)["offset"].to_pylist() == [0, 2, 3, 4]
    assert for_use_case(found, "bills", KEY).schema.equals(RECORD_SCHEMA)


def test_a_record_that_only_says_so_is_for_everybody():
    found = table([(MARK, b"bills")], sent_back("bills", topic="another"), [(MARK, None)])
    assert for_use_case(found, "pages", KEY) is found
