"""Commands as somebody types them, against a SQLite store of their own."""

import pytest
import structlog
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.connectors.kafka import KafkaLog
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.store import open_store


@pytest.fixture(autouse=True)
def logs_as_before():
    """A command sends logs to the standard error it was given, which is closed after the test."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.delenv("DATABASE_URL", raising=False)
    # At its port nobody answers, however long that is waited for.
    monkeypatch.setattr(KafkaLog.__init__, "__defaults__", (0.5,))
    path = tmp_path / "headrace.yaml"
    path.write_text(
        f"module: use_cases.py\n"
        f"database_url: sqlite:///{tmp_path}/store.db\n"
        f"kafka:\n  bootstrap.servers: 127.0.0.1:1\n"
    )
    return path


@pytest.fixture
def store(tmp_path, config):
    """Tenants acme and bolt with a stream of two lanes each, in the use case score."""
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    store.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
    for tenant in ("acme", "bolt"):
        store.registry.add_tenant(Tenant(tenant))
        store.progress.start_lanes(
            [
                LaneStart(
                    StreamId("score", tenant),
                    "id",
                    {f"{tenant}.visits[0]": 3, f"{tenant}.visits[1]": 3},
                )
            ]
        )
    yield store
    store.close()


@pytest.fixture
def headrace(store, config):
    """Run a command; what it printed on both outputs is in ``output``."""

    def run(*words, **more):
        return CliRunner().invoke(app, [*words, "--config", str(config)], **more)

    return run


@pytest.fixture
def fail(store):
    """Keep a failure at offset 3 of a lane that stands there."""

    def keep(tenant="acme", partition=0, *, stop_use_case=False, until=9, **error):
        lane = LaneId("score", tenant, f"{tenant}.visits[{partition}]")
        piece = Slice(lane, f"{tenant}.visits", 3, until, 1, records=until - 3)
        given = {"code": "HandlerError", "message": "no JSON", "offset": 3, **error}
        wrong = SliceError(temporary=False, **given)
        behind = None if wrong.offset is None else wrong.offset + 1
        failure = Failure(piece, wrong, 1_790_000_000.0, 4, behind=behind)
        return store.failures.keep([failure], stop_use_case=stop_use_case)[0]

    return keep
