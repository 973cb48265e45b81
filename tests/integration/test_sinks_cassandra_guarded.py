"""A Cassandra that asks who one is, and shows a certificate."""

import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from headrace.connectors.cassandra.servers import cluster_of
from headrace.embedded import EmbeddedCassandra
from headrace.errors import ConfigError, SinkUnavailable
from headrace.model.streams import LaneId, Slice
from headrace.ports import Connections, Effect, Server, Site
from headrace.sinks import CassandraTable

pytestmark = pytest.mark.slow
OWNER = "cassandra"


class Guarded(EmbeddedCassandra):
    def _as_owner(self, port):
        return replace(super()._as_owner(port), user=OWNER, password=OWNER)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    made = trustme.CA()
    file = tmp_path_factory.mktemp("authority") / "ca.pem"
    made.cert_pem.write_to_path(file)
    return made, file


@pytest.fixture(scope="module")
def node(tmp_path_factory, authority, cassandra_jars):
    folder = tmp_path_factory.mktemp("guarded")
    issued = authority[0].issue_cert("127.0.0.1")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    chain = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    store = folder / "key.p12"
    secret = serialization.BestAvailableEncryption(b"hunter2")
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"node", key, chain, None, secret))
    settings = {
        "authenticator": "PasswordAuthenticator",
        "authorizer": "CassandraAuthorizer",
        "client_encryption_options": {
            "enabled": True,
            "optional": True,
            "keystore": str(store),
            "keystore_password": "hunter2",
            "store_type": "PKCS12",
        },
        "permissions_validity": "0ms",
        "roles_validity": "0ms",
    }
    with Guarded(folder / "node", durable=False, settings=settings) as server:
        yield server


def connections(node, user=OWNER, password=OWNER, more=""):
    return Connections({}, "", servers={"history": Server(node.url + more, user, password)})


@pytest.fixture
def role(node):
    """Somebody who may nothing."""
    name = f"r{uuid.uuid4().hex[:12]}"
    owner = cluster_of(connections(node), "history")
    owner.asked(f"CREATE ROLE {name} WITH PASSWORD = 'hunter2' AND LOGIN = true")
    return name


SINK = CassandraTable(
    "leads", {"lead": "text", "size": "bigint"}, key=("lead",), newest_by="size", at="history"
)


def written(site):

    piece = Slice(LaneId("keep", "acme", 0), "visits", 0, 1, epoch=1)
    made = pa.table({"lead": ["a"], "size": [1]})
    return SINK.open(site).write([Effect((piece,), (1,), made)])[0].error


def test_a_wrong_password_stops_the_lanes_and_shows_nowhere(node):
    site = Site(connections(node, OWNER, "hunter3"), None)
    error = written(site)
    assert error.code == "TargetMissing"
    assert "does not take this user and password" in error.message
    assert "hunter3" not in error.message
    with pytest.raises(ConfigError, match="this user and password"):
        SINK.prepare(site)


def test_who_may_not_make_tables_is_told_what_to_make_and_who_may_not_write_stops(node, role):
    theirs, owner = connections(node, role, "hunter2"), cluster_of(connections(node), "history")
    with pytest.raises(ConfigError, match="make it by hand: 'CREATE TABLE"):
        SINK.prepare(Site(theirs, None))
    SINK.prepare(Site(connections(node), None))
    assert written(Site(theirs, None)).code == "TargetMissing"
    owner.asked(f"GRANT MODIFY ON headrace.leads TO {role}")
    assert written(Site(theirs, None)) is None
    # What is only looked at for warnings needs no right.
    SINK.prepare(Site(theirs, None))


def test_a_user_that_goes_away_in_the_middle_blames_no_record(node, role):
    theirs, owner = connections(node, role, "hunter2"), cluster_of(connections(node), "history")
    SINK.prepare(Site(connections(node), None))
    owner.asked(f"GRANT MODIFY ON headrace.leads TO {role}")
    site = Site(theirs, None)
    assert written(site) is None
    owner.asked(f"ALTER ROLE {role} WITH LOGIN = false")
    cluster_of(theirs, "history").close()
    assert written(site).code == "TargetMissing", "who is not let in any more"
    owner.asked(f"ALTER ROLE {role} WITH LOGIN = true")
    assert written(site) is None
    owner.asked(f"DROP ROLE {role}")
    assert written(site).code in ("TargetMissing", "SinkUnavailable")


def test_a_certificate_that_fits_is_taken_and_another_is_not(node, authority, tmp_path):
    site = Site(connections(node, more=f"&ca_file={authority[1]}"), None)
    SINK.prepare(site)
    assert written(site) is None
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    with pytest.raises(SinkUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        SINK.prepare(Site(connections(node, more=f"&ca_file={tmp_path}/other.pem"), None))
    with pytest.raises(SinkUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        SINK.prepare(Site(connections(node, more="&tls=on"), None))


def test_a_file_of_tls_that_is_not_there_is_told(node):
    with pytest.raises(ConfigError, match="a file of TLS"):
        SINK.prepare(Site(connections(node, more="&ca_file=/nowhere.pem"), None))
