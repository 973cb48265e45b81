"""The one place that starts servers for tests: each at most once a session, when first asked for.

Tests share them, so each makes topics of its own names (``make_topic``) and looks for its own mail.
A test that must stop, kill or fill a server starts one for itself.
"""

import gc
import subprocess
import tempfile
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import settings

import kinesis_server
import mariadb_server
import s3_server
from dynamodb_server import DynamoDb
from headrace.embedded import (
    EmbeddedCassandra,
    EmbeddedHBase,
    EmbeddedKafka,
    EmbeddedOpenSearch,
    EmbeddedPostgres,
    EmbeddedSmtp,
    EmbeddedSolr,
    EmbeddedValkey,
)
from headrace.embedded.jars import jars
from headrace.errors import ServerError
from java_starts import start_sooner
from registry_server import RegistryServer, fetched

start_sooner()

# How long an example takes tells what else the machine does, and no property is about that.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Give every test an id of its own: of two with the same one only one would be run.

    pytest-xdist knows a test by its id, and schemathesis gives one to all operations of a test.
    """
    known = Counter(item.nodeid for item in items)
    for item in items:
        if known[item.nodeid] > 1:
            item._id = item.parent.id.child(item.name)
    known = Counter(item.nodeid for item in items)
    # Short, and waiting for no process to start: beside the last service of the other worker.
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)
    if twice := [name for name, times in known.items() if times > 1]:
        raise pytest.UsageError(f"tests have the same id, and xdist would run one of each: {twice}")


@pytest.fixture(autouse=True, scope="module")
def _own_garbage():
    """Have a file's collections walk what it makes, and not all tests that this process knows."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A real broker; ``kafka.bootstrap_servers`` is its address."""
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka"), quick_start=True) as broker:
        yield broker


@pytest.fixture(scope="session")
def open_folder():
    """A folder that root's PostgreSQL, which is not root, can reach; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        yield folder


@pytest.fixture(scope="session")
def postgres(open_folder):
    """A real PostgreSQL; ``postgres.url`` is its database."""
    with EmbeddedPostgres(open_folder / "postgres", durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def cassandra_jars():
    """What each Cassandra is made of; its tests are passed over where it cannot be had."""
    try:
        return jars("cassandra")
    except ServerError as error:
        pytest.skip(f"Cassandra could not be fetched: {error}")


@pytest.fixture(scope="session")
def cassandra(tmp_path_factory, cassandra_jars):
    """A real Cassandra; ``cassandra.url`` is its keyspace, in which tests have own tables."""
    with EmbeddedCassandra(tmp_path_factory.mktemp("cassandra"), durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def hbase_jars():
    """What each HBase is made of; its tests are passed over where it cannot be had."""
    try:
        return jars("hbase")
    except ServerError as error:
        pytest.skip(f"HBase could not be fetched: {error}")


@pytest.fixture(scope="session")
def hbase(tmp_path_factory, hbase_jars):
    """A real HBase behind its Thrift server; tests have tables of own names in it."""
    with EmbeddedHBase(tmp_path_factory.mktemp("hbase")) as server:
        yield server


@pytest.fixture(scope="session")
def opensearch_jars():
    """What each OpenSearch is made of; its tests are passed over where it cannot be had."""
    try:
        return jars("opensearch")
    except ServerError as error:
        pytest.skip(f"OpenSearch could not be fetched: {error}")


@pytest.fixture(scope="session")
def opensearch(open_folder, opensearch_jars):
    """A real OpenSearch; tests have indexes of own names in it."""
    with EmbeddedOpenSearch(open_folder / "opensearch") as server:
        yield server


@pytest.fixture(scope="session")
def solr_jars():
    """What each Solr is made of; its tests are passed over where it cannot be had."""
    try:
        return jars("solr")
    except ServerError as error:
        pytest.skip(f"Solr could not be fetched: {error}")


@pytest.fixture(scope="session")
def solr(tmp_path_factory, solr_jars):
    """A real Solr; tests have cores of own names in it."""
    with EmbeddedSolr(tmp_path_factory.mktemp("solr")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory):
    """A real Valkey; tests have entries of own names in it."""
    with EmbeddedValkey(tmp_path_factory.mktemp("valkey"), durable=False) as server:
        yield server


@pytest.fixture(scope="session")
def dynamodb():
    """A DynamoDB that moto plays; tests have tables of own names in it."""
    with DynamoDb() as service:
        yield service


@pytest.fixture(scope="session")
def kinesis(tmp_path_factory):
    """A Kinesis that a server plays; tests have streams of own names in it."""
    kinesis_server.needed()
    with kinesis_server.KinesisServer(tmp_path_factory.mktemp("kinesis")) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory):
    """A real MariaDB; ``mariadb.empty()`` makes a database of one's own in it."""
    mariadb_server.needed()
    with mariadb_server.MariaDbServer(tmp_path_factory.mktemp("mariadb")) as server:
        yield server


@pytest.fixture
def empty_mariadb(mariadb):
    """The URL of a database of one's own."""
    with mariadb.empty() as url:
        yield url


@pytest.fixture(scope="session")
def s3(tmp_path_factory):
    """A real S3 server; ``s3.make_bucket()`` makes a bucket of one's own in it."""
    s3_server.needed()
    with s3_server.S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="session")
def smtp(tmp_path_factory):
    """A real mail server; ``smtp.url`` is its address, ``smtp.messages()`` what it got."""
    with EmbeddedSmtp(tmp_path_factory.mktemp("mail")) as server:
        yield server


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    """A real schema registry; ``registry.url`` is its address."""
    try:
        fetched()
    except (subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"the registry could not be fetched: {error}")
    with RegistryServer(tmp_path_factory.mktemp("registry")) as server:
        yield server


@pytest.fixture(scope="session")
def event_log(tmp_path_factory):
    """Where Spark writes what it would show to anybody."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log):
    """One real Spark on two slots for the whole session."""
    from headrace.spark.session import build_session  # noqa: PLC0415 - pyspark takes its time

    options = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.driver.memory": "1g",
    }
    session = build_session("headrace tests", "local[2]", options, {"quick": 3, "slow": 1})
    yield session
    session.stop()


@pytest.fixture
def make_topic(kafka):
    """Makes a topic that nobody else uses: ``make_topic(partitions=1)`` returns its name."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def make(partitions=1, name="test", config=None):
        topic = f"{name}-{uuid.uuid4().hex[:12]}"
        new = NewTopic(topic, partitions, 1, config=config or {})
        admin.create_topics([new])[topic].result(30)
        return topic

    return make
