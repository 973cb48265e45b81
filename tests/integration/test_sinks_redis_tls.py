"""A Valkey that shows a certificate: by what stands before it, since its program has no TLS."""

import contextlib
import socket
import ssl
import threading

import pyarrow as pa
import pytest
import trustme

from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import RedisHashes

SINK = RedisHashes(
    "tls", {"lead": "text", "size": "bigint"}, key=("lead",), newest_by="size", at="cache"
)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


class Front:
    """Takes TLS, and hands on what comes to a port without it."""

    def __init__(self, authority, port):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self.context)
        self.inside = port
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.open = [self.listening]
        self.threads = []
        self._begin(self._accept)

    def close(self):
        for one in self.open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self.threads:
            thread.join()

    def _begin(self, run, *given):
        thread = threading.Thread(target=run, args=given)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                came, _ = self.listening.accept()
            except OSError:
                return
            try:
                outside = self.context.wrap_socket(came, server_side=True)
            except OSError:
                came.close()
                continue
            inside = socket.create_connection(("127.0.0.1", self.inside))
            self.open += [outside, inside]
            self._begin(_copy, outside, inside)
            self._begin(_copy, inside, outside)


def _copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)


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
