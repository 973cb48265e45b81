"""Servers that show a certificate: by what stands before them, since they have no TLS here."""

from dataclasses import dataclass

import pyarrow as pa
import pytest
import trustme

from dynamodb_server import SECRET, USER
from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Sink, Site
from headrace.sinks import DynamoTable, HBaseTable, RedisHashes, SearchIndex, SolrIndex
from solr_cores import make_core
from tls_front import Front

COLUMNS = {"lead": "text", "size": "bigint"}
SAID = {"key": ("lead",), "newest_by": "size", "at": "there"}
#: fixture of the server -> sink, and URL by TLS
KNOWN = {
    "valkey": (RedisHashes("tls", COLUMNS, **SAID), "rediss://127.0.0.1:{}/0"),
    "dynamodb": (
        DynamoTable("tls", COLUMNS, **SAID),
        "dynamodb://eu-central-1?endpoint=https://127.0.0.1:{}",
    ),
    "hbase": (HBaseTable("tls", COLUMNS, **SAID), "hbases://127.0.0.1:{}"),
    "opensearch": (SearchIndex("tls", COLUMNS, copies=0, **SAID), "https://127.0.0.1:{}"),
    "solr": (SolrIndex("tls", COLUMNS, **SAID), "https://127.0.0.1:{}/solr"),
}
#: that client signs what it sends
USERS = {"dynamodb": (USER, SECRET)}


@dataclass
class Shown:
    """A server that answers by TLS."""

    sink: Sink
    url: str
    user: tuple[str, ...]

    def site(self, ca_file=""):
        more = f"{'&' if '?' in self.url else '?'}ca_file={ca_file}" if ca_file else ""
        server = Server(self.url + more, *self.user)
        return Site(Connections({}, "", servers={"there": server}), None)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module", params=KNOWN)
def server(request, authority):
    behind = request.getfixturevalue(request.param)
    if request.param == "solr":
        make_core(behind, "tls", COLUMNS)
    front = Front(authority, behind.port)
    sink, url = KNOWN[request.param]
    yield Shown(sink, url.format(front.port), USERS.get(request.param, ()))
    front.close()


def test_a_certificate_that_fits_is_taken_and_another_is_not(server, authority, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    right = server.site(f"{tmp_path}/ca.pem")
    server.sink.prepare(right)
    piece = Slice(LaneId("keep", "acme", 0), "visits", 0, 1, epoch=1)
    made = Effect((piece,), (1,), pa.table({"lead": ["a"], "size": [1]}))
    assert server.sink.open(right).write([made])[0].error is None
    for wrong in (f"{tmp_path}/other.pem", ""):
        with pytest.raises(SinkUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            server.sink.prepare(server.site(wrong))


def test_a_file_of_tls_that_is_not_there_is_told(server):
    with pytest.raises(ConfigError, match="a file of TLS"):
        server.sink.prepare(server.site("/nowhere.pem"))
