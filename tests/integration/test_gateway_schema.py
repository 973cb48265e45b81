"""What the gateway's OpenAPI says is what it does: schemathesis over all of it, on fakes of Kafka.

The records go nowhere, since what becomes of them is tested elsewhere; the HTTP server, the door
and the guard are the real ones.
"""

import time

import httpx
import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from doors_in_memory import AllTopics, Nowhere
from headrace.doors import door
from headrace.doors.guard import Guard
from headrace.doors.keys import new_key
from headrace.doors.serving import Listening, serving
from headrace.gateway.app import gateway_app
from headrace.gateway.opening import rules_of
from headrace.model.credentials import Role
from headrace.model.streams import Tenant
from headrace.settings.doors import DoorsSettings
from headrace.settings.gateway import GatewaySettings
from headrace.testing.memory_store import MemoryStore

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
)
SECRET = b"s" * 40
GATEWAY = GatewaySettings.model_validate(
    {
        "types": {"visit": {"topic": "visits", "key": "/lead"}},
        "rate": {"records_per_s": None, "bytes_per_s": None},
    }
)


@pytest.fixture(scope="module")
def gateway():
    """Address, and a key of a tenant."""
    store = MemoryStore()
    store.registry.add_tenant(Tenant("acme"))
    text, key = new_key(Role.SENDER, "acme", "test", SECRET, time.time())
    store.keys.add(key)
    app = gateway_app(rules_of(GATEWAY), Nowhere(), AllTopics())
    guard = Guard(store.keys, SECRET)
    door.install_door(app, guard, DoorsSettings(), "127.0.0.1", door.RequestLimits(1_000_000))
    with serving(app, Listening("127.0.0.1", 0)) as url:
        yield url, text


def test_it_answers_as_it_says(gateway):
    url, key = gateway
    told = schemathesis.openapi.from_url(f"{url}/v1/openapi.json")
    operations = [operation.ok() for operation in told.get_all_operations()]
    assert len(operations) == 4
    for operation in operations:
        modes = operation.as_strategy() | operation.as_strategy(
            generation_mode=GenerationMode.NEGATIVE
        )

        @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
        @given(modes)
        def ask(case):
            credential = {"Authorization": f"Bearer {key}"}
            case.call_and_validate(headers=credential, checks=list(CHECKS))

        ask()


def test_the_examples_of_openapi_are_taken(gateway):
    url, key = gateway
    told = httpx.get(f"{url}/v1/openapi.json", timeout=60).json()
    forms = told["paths"]["/v1/events/{type}"]["post"]["requestBody"]["content"]
    for media, form in forms.items():
        examples = [value["value"] for value in form.get("examples", {}).values()]
        for example in examples or [form["example"]]:
            body = example if isinstance(example, str) else orjson.dumps(example)
            headers = {"Authorization": f"Bearer {key}", "Content-Type": media}
            answer = httpx.post(f"{url}/v1/events/visit", content=body, headers=headers, timeout=60)
            assert answer.status_code == 202, (media, answer.text)
