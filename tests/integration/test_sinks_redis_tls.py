"""A Valkey that shows a certificate: by what stands before it, since its program has no TLS."""

import pyarrow as pa
import pytest
import trustme

from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import RedisHashes
from tls_front import Front

SINK = RedisHashes(
    "tls", {"lead": "text", "size": "bigint"}, key=("lead",), newest_by="size", at="cache"
)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def port(valkey, authority):
    """Where the server answers by TLS."""
    front = Front(authority, valkey.port)
    yield front.port
    front.close()


def site(port, more=""):
    url = f"rediss://127.0.0.1:{port}/0{more}"
    return Site(Connections({}, "", servers={"cache": Server(url)}), None)


def test_a_certificate_that_fits_is_taken_and_another_is_not(port, authority, tmp_path):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    right = site(port, f"?ca_file={tmp_path}/ca.pem")
    SINK.prepare(right)
    piece = Slice(LaneId("keep", "acme", 0), "visits", 0, 1, epoch=1)
    made = Effect((piece,), (1,), pa.table({"lead": ["a"], "size": [1]}))
    assert SINK.open(right).write([made])[0].error is None
    for wrong in (f"?ca_file={tmp_path}/other.pem", ""):
        with pytest.raises(SinkUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            SINK.prepare(site(port, wrong))


def test_a_file_of_tls_that_is_not_there_is_told(port):
    with pytest.raises(ConfigError, match="a file of TLS"):
        SINK.prepare(site(port, "?ca_file=/nowhere.pem"))
