"""How rows are offered: by how many threads, how often, and what one tenant's cost the others."""

import random
import threading
import time
from collections import Counter

import botocore.exceptions
import pyarrow as pa
import pytest

from headrace.connectors.dynamodb import table as sinks
from headrace.connectors.dynamodb import writer as writers
from headrace.connectors.dynamodb.writer import HELPERS
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import DynamoTable
from headrace.spark.refused_rows import as_a_whole

COLUMNS = {"id": "text", "size": "bigint"}
THROTTLED = "ProvisionedThroughputExceededException"


def effect(tenant, ids, *, may_repeat=True, size=1):
    piece = Slice(LaneId("keep", tenant, 0), "visits", 0, 1, epoch=1)
    table = pa.table({"id": [f"{one}" for one in ids], "size": [size] * len(ids)})
    return Effect((piece,), (1,), table, may_repeat=may_repeat)


class Fake:
    """A service that says of a put what ``says`` returns: a code, an error, or nothing."""

    def __init__(self, says=lambda tenant, key: None, answer_s=0.0):
        self.says, self.answer_s = says, answer_s
        self.offered, self.taken = [], []
        self.threads, self.now, self.at_once = set(), Counter(), Counter()

    def asked(self, operation, request, until_s):
        assert operation == "put_item"
        item = request["Item"]
        where = item["_tenant"]["S"], item["_key"]["S"]
        self.now[where] += 1
        self.at_once[where] = max(self.at_once[where], self.now[where])
        self.threads.add(threading.current_thread())
        self.offered.append(where)
        try:
            time.sleep(self.answer_s)
            told = self.says(*where)
            if isinstance(told, str):
                raise botocore.exceptions.ClientError({"Error": {"Code": told}}, "PutItem")
            if told is not None:
                raise told
            self.taken.append(where)
        finally:
            self.now[where] -= 1


class Clock:
    """A clock that goes, by which nobody sleeps."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, sleep):
        self.sleep = sleep


@pytest.fixture
def written(monkeypatch):
    """Writes effects through a service that is played."""

    def write(fake, *effects, in_company=False):
        monkeypatch.setattr(sinks, "service_of", lambda *_, **__: fake)
        site = Site(Connections({}, "", servers={"there": Server("")}), None, in_company=in_company)
        sink = DynamoTable("leads", COLUMNS, key=("id",), newest_by="size", at="there")
        return sink.open(site).write(effects)

    return write


def codes(told):
    errors = [as_a_whole(one).error for one in told]
    return [error and error.code for error in errors]


# --- threads


def test_few_threads_put_and_they_end_with_the_write(written):
    fake = Fake(answer_s=0.002)
    assert codes(written(fake, effect("acme", range(200)))) == [None]
    assert len(fake.taken) == 200
    assert 1 < len(fake.threads) <= 1 + HELPERS
    helpers = fake.threads - {threading.current_thread()}
    assert not any(thread.is_alive() for thread in helpers)


def test_however_many_write_at_once_no_more_threads_help(written):
    alive = []

    def says(*_):
        found = [one for one in threading.enumerate() if one.name == "dynamodb-put"]
        alive.append(len(found))

    fake = Fake(says, answer_s=0.002)
    calls = [
        threading.Thread(target=written, args=(fake, effect(f"t{n}", range(50)))) for n in range(5)
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert len(fake.taken) == 250
    assert 0 < max(alive) <= HELPERS


def test_a_worker_that_can_have_no_more_threads_puts_by_itself(written, monkeypatch):
    def refuses(_):
        raise RuntimeError("can't start new thread")

    fake = Fake()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        assert codes(written(fake, effect("acme", range(50)))) == [None]
    assert fake.threads == {threading.current_thread()}
    # What could not be had is not counted as taken.
    again = Fake(answer_s=0.002)
    written(again, effect("acme", range(100)))
    assert len(again.threads) == 1 + HELPERS


def test_of_one_key_never_two_puts_are_on_their_way(written):
    fake = Fake(answer_s=0.002)
    effects = [effect("acme", [7], size=number) for number in range(30)]
    others = effect("acme", range(100, 150))
    assert codes(written(fake, *effects, others)) == [None] * 31
    assert Counter(fake.taken)["acme", "7"] == 30
    assert set(fake.at_once.values()) == {1}
    assert len(fake.threads) > 1


def test_a_write_that_is_broken_off_offers_nothing_more(written):
    class BrokenOff(BaseException):
        """As a call that takes too long is ended."""

    main = threading.current_thread()

    def says(*_):
        if threading.current_thread() is main and len(fake.taken) > 20:
            raise BrokenOff

    fake = Fake(says, answer_s=0.002)
    with pytest.raises(BrokenOff):
        written(fake, effect("acme", range(1000)))
    helpers = fake.threads - {main}
    assert helpers
    for thread in helpers:
        thread.join(10)
        assert not thread.is_alive()
    assert len(fake.offered) < 100


# --- too much for now


def test_what_is_too_much_is_offered_again_and_taken_in_the_same_call(written):
    refusals = Counter()

    def says(tenant, key):
        refusals[key] += 1
        return THROTTLED if int(key) % 10 == 3 and refusals[key] == 1 else None

    fake = Fake(says)
    assert codes(written(fake, effect("acme", range(40)))) == [None]
    assert len(set(fake.taken)) == len(fake.taken) == 40


def test_waits_grow_are_shortened_by_chance_and_end_with_the_patience(written, monkeypatch):
    waits, chance = [], random.Random(7)
    monkeypatch.setattr(writers.random, "random", chance.random)
    monkeypatch.setattr(writers, "time", Clock(waits.append))
    fake = Fake(lambda *_: THROTTLED)
    [told] = written(fake, effect("acme", range(1000)))
    assert (told.error.code, THROTTLED in told.error.message) == ("SinkUnavailable", True)
    assert 0 < sum(waits) <= writers.ALONE_S
    assert max(waits) > 0.3
    assert len(set(waits)) == len(waits)
    ceilings = [min(1.0, 0.05 * 2**tries) for tries in range(len(waits))]
    assert all(wait <= most for wait, most in zip(waits, ceilings, strict=True))
    # A thousand rows are not asked for each time: the first one tells.
    assert len(fake.offered) <= (1 + HELPERS) * (1 + len(waits))


def test_where_others_wait_patience_is_short(written, monkeypatch):
    waits = []
    monkeypatch.setattr(writers, "time", Clock(waits.append))
    written(Fake(lambda *_: THROTTLED), effect("acme", range(9)), in_company=True)
    assert 0 < sum(waits) <= writers.IN_COMPANY_S


def test_rows_that_were_not_taken_are_named_and_the_others_are_there(written, monkeypatch):
    monkeypatch.setattr(sinks, "ALONE_S", 0.0)
    fake = Fake(lambda tenant, key: THROTTLED if key == "7" else None)
    [told] = written(fake, effect("acme", range(8)))
    assert [(row.row, row.error.code) for row in told.refused] == [(7, "SinkUnavailable")]
    assert len(fake.taken) == 7


# --- what one tenant's rows cost the others


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("ResourceNotFoundException", "TargetMissing"),
        ("AccessDeniedException", "TargetMissing"),
        ("InternalServerError", "SinkUnavailable"),
        (THROTTLED, "SinkUnavailable"),
        ("ValidationException", "SinkRefused"),
    ],
)
def test_what_a_tenants_rows_meet_concerns_that_tenant_alone(written, monkeypatch, said, code):
    monkeypatch.setattr(writers, "time", Clock(lambda _: None))
    fake = Fake(lambda tenant, key: said if tenant == "bad" else None)
    told = written(
        fake, effect("bad", range(50)), effect("acme", range(50)), effect("bolt", range(50))
    )
    assert codes(told) == [code, None, None]
    assert len(fake.taken) == 100


@pytest.mark.parametrize("said", ["ResourceNotFoundException", "AccessDeniedException"])
def test_a_tenant_that_is_given_up_is_asked_for_no_more(written, said):
    fake = Fake(lambda tenant, key: said if tenant == "bad" else None)
    written(fake, effect("bad", range(100)), effect("acme", range(100)))
    assert sum(tenant == "bad" for tenant, _ in fake.offered) <= 1 + HELPERS


def test_a_throttled_tenant_waits_while_the_others_go_on(written, monkeypatch):
    sleeps = []
    monkeypatch.setattr(writers, "time", Clock(lambda _: sleeps.append(len(fake.taken))))
    fake = Fake(lambda tenant, key: THROTTLED if tenant == "hot" else None)
    told = written(fake, effect("hot", range(100)), effect("acme", range(100)))
    assert codes(told) == ["SinkUnavailable", None]
    assert sleeps[0] == 100, "others were done before anybody waited"


def test_a_service_that_is_away_is_asked_once_in_a_call_however_many_tenants_there_are(written):
    away = botocore.exceptions.EndpointConnectionError(endpoint_url="x")
    fake = Fake(lambda *_: away)
    told = written(fake, *(effect(f"t{n}", range(20)) for n in range(9)))
    assert set(codes(told)) == {"SinkUnavailable"}
    assert len(fake.offered) == 1


def test_what_is_done_already_is_success(written):
    fake = Fake(lambda *_: "ConditionalCheckFailedException")
    assert codes(written(fake, effect("acme", range(20)))) == [None]


def test_what_may_not_repeat_is_an_error_as_a_whole_and_what_was_too_much_may(written):
    refusals = Counter()

    def says(tenant, key):
        refusals[key] += 1
        return THROTTLED if refusals[key] == 1 else None

    assert codes(written(Fake(says), effect("acme", "ab", may_repeat=False))) == [None]
    bad = Fake(lambda tenant, key: "ValidationException" if key == "b" else None)
    [told] = written(bad, effect("acme", "abc", may_repeat=False))
    assert (told.refused, told.error.code) == ((), "SinkRefused")
