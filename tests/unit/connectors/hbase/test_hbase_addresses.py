"""Addresses of Thrift servers of HBase, and what their answers mean."""

import pytest
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TTransportException

from headrace.connectors.hbase.addresses import address_of
from headrace.connectors.hbase.library import library, translated
from headrace.errors import ConfigError, code_of
from headrace.ports import Server
from headrace.sinks import HBaseTable

HBASE = library().hbase
COLUMNS = {"id": "text", "size": "bigint", "gone": "boolean", "share": "double"}
STACK = "\n\tat org.apache.hadoop.hbase.TableNotFoundException.make(It.java:1)"


def test_an_address_says_host_tls_and_how_it_is_spoken_to():
    url = "hbases://[::1]:7000?ca_file=/ca.pem&transport=framed&protocol=compact"
    found = address_of(Server(url), "store")
    assert (found.host, found.port, found.tls) == ("::1", 7000, True)
    assert (found.transport, found.protocol) == ("framed", "compact")
    assert dict(found.files) == {"ca_file": "/ca.pem"}
    plain = address_of(Server("hbase://thrift"), "store")
    assert (plain.port, plain.tls, plain.transport, plain.protocol) == (
        9090,
        False,
        "buffered",
        "binary",
    )


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Server("http://thrift:9090"), "no HBase"),
        (Server("hbase://"), "no HBase"),
        (Server("hbase://thrift:hunter2"), "no HBase"),
        (Server("hbase://thrift/leads"), "no HBase"),
        (Server("hbase://me:hunter2@thrift"), "knows no user"),
        (Server("hbase://thrift", "me", "hunter2"), "knows no user"),
        (Server("hbase://thrift?transport=http"), "transport is buffered or framed"),
        (Server("hbase://thrift?protocol=json"), "protocol is binary or compact"),
        (Server("hbase://thrift?tls=on"), "option 'tls' is none of"),
        (Server("hbase://thrift?ca_file=/ca.pem"), "need hbases://"),
    ],
)
def test_an_address_that_is_wrong_is_told_without_what_may_be_a_secret(server, said):
    with pytest.raises(ConfigError, match=said) as told:
        address_of(server, "store")
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (HBASE.IOError(b"x.TableNotFoundException: t"), "TargetMissing", "no such table"),
        (
            HBASE.IOError(b"Failed 1: x.NoSuchColumnFamilyException: Column family z"),
            "TargetMissing",
            "no such column family",
        ),
        (HBASE.IOError(b"x.AccessDeniedException: hunter2"), "TargetMissing", "a right"),
        (
            HBASE.IllegalArgument(b"x.IllegalArgumentException: KeyValue size too large"),
            "SinkRefused",
            "larger than HBase takes",
        ),
        (
            HBASE.IOError(b"Cell[hunter2] with size 9 exceeds limit of 8 bytes"),
            "SinkRefused",
            "larger than HBase takes",
        ),
        (
            HBASE.IOError(b"x.NamespaceNotFoundException: none"),
            "TargetMissing",
            "no such namespace",
        ),
        (
            HBASE.IOError(b"Failed 1: x.FailedSanityCheckException: hunter2 is out of range"),
            "TargetMissing",
            "timestamp.slop.millisecs",
        ),
        (
            HBASE.IllegalArgument(f"x.IllegalArgumentException: hunter2{STACK}".encode()),
            "SinkRefused",
            "takes no such row: IllegalArgumentException",
        ),
        (
            HBASE.IOError(f"x.RetriesExhaustedException: hunter2{STACK}".encode()),
            "SinkUnavailable",
            "not now: RetriesExhaustedException",
        ),
        (HBASE.IOError(None), "SinkUnavailable", "does not say why"),
        (TApplicationException(6, b"Internal error"), "SinkUnavailable", "not now"),
        (TTransportException(4, "read 0 bytes"), "SinkUnavailable", "TTransportException"),
        (TimeoutError("timed out"), "SinkUnavailable", "may be written or not"),
        (ConnectionRefusedError(111, "refused"), "SinkUnavailable", "refused"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), "SinkUnavailable", "cannot be read"),
    ],
)
def test_what_the_client_raises_has_a_name_and_quotes_no_row(error, code, said):
    told = translated(error, "HBase table t at store")
    assert code_of(told) == code
    assert said in str(told)
    assert str(told).startswith("HBase table t at store: ")
    assert "hunter2" not in str(told)


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ("the name has letters", {"name": "{tenant}_leads"}),
        ("the name has letters", {"name": "a:b:c"}),
        ("name it 'leads'", {"name": "default:leads"}),
        ("family='d:'", {"family": "d:"}),
        ("only {tenant} may stand in braces", {"prefix": "{topic}:"}),
        *(
            ("behind {tenant} stands a character", {"prefix": prefix})
            for prefix in ("{tenant}", "{tenant}-", "x:{tenant}a:", "{tenant}:{tenant}")
        ),
        ("at names no connection", {"at": ""}),
        ("may stand in braces, and not alone", {"at": "{tenant}"}),
        ("key names 'share'", {"key": ("share",)}),
        ("delete_by names 'size'", {"delete_by": "size"}),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_where_it_is_written(said, more):
    given = {"name": "leads", "key": ("id",), "newest_by": "size", "at": "store", **more}
    with pytest.raises(ConfigError) as told:
        HBaseTable(columns=COLUMNS, **given)
    assert said in str(told.value)
    assert str(told.value).startswith(f"HBase table {given['name']!r}: ")


@pytest.mark.parametrize(
    "prefix", ["", "leads:", "{tenant}:", "v1-{tenant}.", "{tenant}_{tenant}/"]
)
def test_a_prefix_that_tells_tenants_apart_or_names_none_is_taken(prefix):
    made = HBaseTable("leads", COLUMNS, key=("id",), newest_by="size", at="store", prefix=prefix)
    assert made.prefix == prefix
