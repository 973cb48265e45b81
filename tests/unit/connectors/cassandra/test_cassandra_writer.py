"""What becomes of rows that a cluster does not take."""

import time
from unittest import mock

import cassandra as client
import cassandra.cluster
import cassandra.concurrent
import cassandra.protocol
import pyarrow as pa
import pytest

from headrace.connectors.cassandra import writer
from headrace.connectors.cassandra.addresses import Address
from headrace.connectors.cassandra.library import translated
from headrace.connectors.cassandra.servers import Cluster
from headrace.connectors.cassandra.writer import CassandraWriter
from headrace.errors import SinkRefused, SinkUnavailable, TargetMissing
from headrace.model.streams import LaneId, Slice
from headrace.ports import Effect
from headrace.sinks import CassandraTable

SINK = CassandraTable(
    "leads",
    {"id": "text", "size": "bigint", "changed": "bigint"},
    key=("id",),
    newest_by="changed",
    at="history",
)
REFUSED = client.InvalidRequest("no")
SILENT = client.OperationTimedOut()
BUSY = client.Unavailable("busy")


class Fake:
    """A cluster that takes what it is told to take."""

    where = "connection history"

    def __init__(self, answer):
        self.answer = answer
        self.offered = []
        self.told = {}

    def session(self):
        return self

    def prepared(self, statement):
        return statement

    def execution_profile_clone_update(self, _profile, *, request_timeout):
        return request_timeout

    def execute(
        self, _session, statements, at_once, *, raise_on_first_error, results_generator, **told
    ):
        assert (raise_on_first_error, results_generator) == (False, True)
        self.told = told
        for _, values in statements:
            self.offered.append(values[:2])
            error = self.answer(*values[:2])
            yield error is None, error


def leads(*ids):
    sizes = list(range(len(ids)))
    return pa.table({"id": list(ids), "size": sizes, "changed": sizes})


def effect(table, tenant="acme", **more):
    piece = Slice(LaneId("keep", tenant, 0), "visits", 0, 9, epoch=1)
    return Effect((piece,), (9,), table, **more)


def written(answer, *effects):
    cluster = Fake(answer)
    made = CassandraWriter(SINK._rows("shop"), cluster)
    with mock.patch.object(client.concurrent, "execute_concurrent", cluster.execute):
        return cluster, made.write(effects)


def named(outcome):
    return [(each.row, each.error and each.error.code) for each in outcome.refused]


def test_a_row_that_is_refused_is_named_and_the_others_are_there():
    answer = {"b": REFUSED, "c": BUSY}.get
    cluster, [one, other] = written(
        lambda key, _: answer(key), effect(leads("a", "b", "c", "d")), effect(leads("e"), "bolt")
    )
    assert named(one) == [(1, "SinkRefused"), (2, "SinkUnavailable")]
    assert other.error is None
    assert not other.refused
    assert len(cluster.offered) == 5


def test_in_place_of_a_row_that_is_refused_the_one_of_its_key_before_it_is_there():
    cluster, [outcome] = written(
        lambda _, size: REFUSED if size == 2 else None, effect(leads("a", "b", "a"))
    )
    assert cluster.offered == [("a", 2), ("b", 1), ("a", 0)]
    assert named(outcome) == [(2, "SinkRefused")]


def test_an_older_row_that_would_be_as_new_is_not_sent_and_its_effect_is_written_in_parts():
    as_new = leads("a", "b", "a").set_column(2, "changed", pa.array([9, 9, 9]))
    cluster, [outcome, other] = written(
        lambda _, size: REFUSED if size == 2 else None, effect(as_new), effect(leads("c"), "bolt")
    )
    assert cluster.offered == [("a", 2), ("b", 1), ("c", 0)]
    assert (outcome.error.code, outcome.refused) == ("SinkRefused", ())
    assert (other.error, other.refused) == (None, ())


def test_a_row_that_is_refused_stays_named_when_the_cluster_goes_away_after_it():
    class Leaving(Fake):
        def session(self):
            if self.offered:
                raise SinkUnavailable("it is away")
            return self

    with mock.patch(f"{__name__}.Fake", Leaving):
        _, [outcome] = written(
            lambda _, size: REFUSED if size == 2 else None, effect(leads("a", "b", "a"))
        )
    assert named(outcome) == [(0, "SinkUnavailable"), (2, "SinkRefused")]


def test_of_a_key_whose_newest_row_waits_all_are_offered_again():
    cluster, [outcome] = written(
        lambda _, size: BUSY if size == 2 else None, effect(leads("a", "b", "a"))
    )
    assert cluster.offered == [("a", 2), ("b", 1)]
    assert named(outcome) == [(0, "SinkUnavailable"), (2, "SinkUnavailable")]


def test_when_nobody_answers_no_more_is_offered():
    cluster, [outcome] = written(lambda key, _: SILENT, effect(leads(*map(str, range(500)))))
    assert len(cluster.offered) == 1
    assert outcome.error.code == "SinkUnavailable"


def test_when_too_many_rows_are_refused_for_now_no_more_is_offered():
    cluster, [outcome] = written(
        lambda key, size: None if size < 10 else BUSY, effect(leads(*map(str, range(500))))
    )
    assert len(cluster.offered) == 10 + 64
    assert [row for row, _ in named(outcome)] == list(range(10, 500))


def test_a_table_that_is_gone_stops_its_effects_and_no_record_is_to_blame():
    gone = client.InvalidRequest("table leads does not exist")
    _, [outcome] = written(lambda key, _: gone, effect(leads("a", "b")))
    assert outcome.error.code == "TargetMissing"


def test_what_may_not_repeat_is_an_error_as_a_whole():
    _, [outcome] = written(
        lambda key, _: {"b": BUSY}.get(key), effect(leads("a", "b"), may_repeat=False)
    )
    assert outcome.error.code == "SinkUnavailable"


def test_of_what_was_not_offered_nothing_is_told_to_be_there():
    cluster, [outcome] = written(
        lambda key, _: of_hosts(REFUSED) if key == "b" else None, effect(leads("a", "b", "c", "d"))
    )
    assert cluster.offered == [("a", 0), ("b", 1)]
    assert named(outcome) == [(row, "SinkUnavailable") for row in (1, 2, 3)]


def test_nor_where_who_is_silent_says_never():
    with mock.patch.object(writer, "translated", return_value=SinkRefused("never")):
        cluster, [outcome] = written(
            lambda key, _: SILENT if key == "b" else None, effect(leads("a", "b", "c"))
        )
    assert cluster.offered == [("a", 0), ("b", 1)]
    assert named(outcome) == [(1, "SinkRefused"), (2, "SinkUnavailable")]


def of_hosts(error):
    return client.cluster.NoHostAvailable("none", {"127.0.0.1": error})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BUSY, SinkUnavailable),
        (SILENT, SinkUnavailable),
        (client.WriteTimeout("late", write_type=0), SinkUnavailable),
        (client.WriteFailure("failed", write_type=0), SinkUnavailable),
        (client.protocol.OverloadedErrorMessage(0x1001, "Overloaded", {}), SinkUnavailable),
        (client.protocol.ServerError(0, "java.lang.Error", {}), SinkUnavailable),
        (of_hosts(OSError(111, "refused")), SinkUnavailable),
        (of_hosts(client.AuthenticationFailed("bad")), TargetMissing),
        (of_hosts(client.InvalidRequest("Keyspace 'shop' does not exist")), TargetMissing),
        (of_hosts(client.InvalidRequest("no")), SinkUnavailable),
        (client.Unauthorized("no right"), TargetMissing),
        (client.InvalidRequest("unconfigured table leads"), TargetMissing),
        (client.InvalidRequest("Keyspace 'shop' does not exist"), TargetMissing),
        (client.InvalidRequest("Key may not be empty"), SinkRefused),
        (
            client.InvalidRequest("timestamp 5 before the minimum allowable timestamp"),
            TargetMissing,
        ),
        (TypeError("of a value"), SinkRefused),
        (RuntimeError("who knows"), SinkUnavailable),
    ],
)
def test_what_the_client_raises_is_told_in_the_words_of_sinks(error, kind):
    told = translated(error, "table leads")
    assert type(told) is kind
    assert str(told).startswith("table leads: ")


def test_where_no_node_answers_each_reason_is_told_once():
    nodes = {host: OSError(111, "refused") for host in "abc"}
    told = translated(client.cluster.NoHostAvailable("none", nodes), "connection history")
    assert str(told) == "connection history: no node answers: [Errno 111] refused"


def test_a_cluster_that_is_not_there_is_not_there_now():
    nowhere = Cluster("history", Address((("127.0.0.1", 1),), "shop", "dc1", tls=False))
    with pytest.raises(SinkUnavailable, match="connection history: no node answers"):
        nowhere.session()


def test_where_others_wait_rows_are_offered_for_half_of_the_time_and_asked_for_the_other():
    cluster = Fake(lambda *_: time.sleep(0.05))
    made = CassandraWriter(SINK._rows("shop"), cluster, time.monotonic() + 1.0)
    with mock.patch.object(client.concurrent, "execute_concurrent", cluster.execute):
        [outcome] = made.write([effect(leads(*map(str, range(40))))])
    assert cluster.told["execution_profile"] == pytest.approx(0.5, abs=0.05)
    assert 1 <= len(cluster.offered) <= 12
    assert len(cluster.offered) + len(outcome.refused) == 40
    assert {code for _, code in named(outcome)} == {"SinkUnavailable"}
