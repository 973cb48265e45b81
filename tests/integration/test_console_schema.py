"""The control API keeps to its OpenAPI document, whatever an operator or a tenant sends.

Requests are made up from the document, sensible ones and others, and sent to a real server on a
SQLite store. No answer may be a 500, of another shape than the document says, or a yes to what the
document forbids.
"""

import time
from contextlib import closing

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from doors_in_memory import Tools
from headrace.console.api import ApiParts, create_app
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.doors.serving import Listening, serving
from headrace.model.credentials import Role
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.process.clock import SystemClock
from headrace.store import open_store
from headrace.testing.memory_store import MemoryStore

pytestmark = pytest.mark.slow
SECRET = b"0123456789abcdef0123456789abcdef"
#: it never ends; tests of its own look at it
ENDLESS = "/v1/live"


def filled(store):
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
        error = SliceError(False, "HandlerError", "no JSON", offset=3, raw_value=b"\xff\0")
        piece = Slice(LaneId("score", tenant, f"{tenant}.visits[0]"), f"{tenant}.visits", 3, 9, 1)
        store.failures.keep([Failure(piece, error, 5.0, behind=4)])[0]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """URL of a server, and a key of each role."""
    url = f"sqlite:///{tmp_path_factory.mktemp('console')}/store.db"
    with closing(open_store(url)) as store:
        filled(store)
        keys = {}
        for role, tenant in ((Role.OPERATOR, None), (Role.TENANT, "acme")):
            keys[role], key = new_key(role, tenant, "", SECRET, time.time())
            store.keys.add(key)
        guard = Guard(store.keys, SECRET)
        app = create_app(ApiParts(store, Tools(partitions=2), guard, SECRET, SystemClock()))
        with serving(app, Listening("127.0.0.1", 0, drain_s=1)) as base:
            yield base, keys


def document():
    """What an app says of itself; it needs nothing in its store to say it."""
    store = MemoryStore()
    guard = Guard(store.keys, SECRET)
    return create_app(ApiParts(store, Tools(), guard, SECRET, SystemClock())).openapi()


schema = schemathesis.openapi.from_dict(document()).exclude(path=ENDLESS)
some = settings(
    max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@schema.parametrize()
@some
def test_an_operator_is_answered_as_the_document_says(case, service):
    ask(case, service, Role.OPERATOR)


@schema.parametrize()
@some
def test_a_tenant_is_answered_as_the_document_says(case, service):
    ask(case, service, Role.TENANT)


def ask(case, service, role):
    base, keys = service
    if case.meta.generation.mode.is_positive:
        # Cursors and versions come from answers; made-up ones are refused, and rightly so.
        case.query.pop("cursor", None)
        for name in ("If-Match", "If-None-Match"):
            case.headers.pop(name, None)
    headers = {"Authorization": f"Bearer {keys[role]}"}
    case.call_and_validate(base_url=base, headers=headers, timeout=60)
