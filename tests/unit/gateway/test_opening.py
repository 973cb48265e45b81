"""Settings become rules; what cannot be is said before anything is taken."""

import asyncio

import pytest
from structlog.testing import capture_logs

from headrace.doors.open_guard import OpenGuard
from headrace.errors import ConfigError, StoreUnavailable
from headrace.gateway.opening import gateway_of, rules_of
from headrace.gateway.rates import TooMuch
from headrace.settings import Settings
from headrace.settings.gateway import GatewaySettings
from headrace.testing.memory_store import MemoryStore


def settings(folder, **more):
    types = {"form": {"topic": "forms", "schema": "form.json", "key": "/id"}}
    return GatewaySettings.model_validate({"types": types, **more}).within(folder)


def test_a_type_has_its_topic_key_and_schema(tmp_path):
    (tmp_path / "form.json").write_text('{"required": ["id"]}')
    kind = rules_of(settings(tmp_path)).types["form"]
    assert kind.topic_of("acme") == "acme.forms"
    assert kind.key == "/id"
    assert kind.fault_of({}, at_length=True).kind == "not-valid"


@pytest.mark.parametrize(
    ("text", "said"), [(None, "cannot be read"), ("{", "is not JSON"), ("[]", "is no JSON Schema")]
)
def test_a_schema_that_cannot_be_used_is_named(tmp_path, text, said):
    if text is not None:
        (tmp_path / "form.json").write_text(text)
    with pytest.raises(ConfigError, match=rf"form\.json {said}"):
        rules_of(settings(tmp_path))


def test_a_tenant_has_the_rate_of_all_or_its_own():
    rates = rules_of(
        GatewaySettings.model_validate(
            {
                "types": {"visit": {"topic": "visits"}},
                "rate": {"records_per_s": 10, "bytes_per_s": "1k"},
                "tenants": {"big": {"records_per_s": None, "bytes_per_s": None}},
            }
        )
    ).rates
    rates.spend_bytes("acme", 1024)
    with pytest.raises(TooMuch):
        rates.spend_bytes("acme", 1024)
    rates.spend_bytes("big", 1_000_000_000)


def test_limits_are_those_of_the_settings():
    chosen = {"types": {"a": {"topic": "b"}}, "request_events": 3, "event_bytes": "2k", "depth": 4}
    limits = rules_of(GatewaySettings.model_validate(chosen)).limits
    assert (limits.items, limits.item_bytes, limits.depth) == (3, 2048, 4)


def test_a_tenant_has_a_quarter_of_the_requests_that_are_let_in():
    chosen = {"types": {"visit": {"topic": "visits"}}, "most_requests": 4}
    room = rules_of(GatewaySettings.model_validate(chosen)).room
    with room.taken("acme", 0), pytest.raises(TooMuch), room.taken("acme", 0):
        pass


def test_without_kafka_there_is_no_gateway():
    with pytest.raises(ConfigError, match="no Kafka is named"):
        gateway_of(Settings(module="m.py"), None, MemoryStore())


def test_who_started_it_is_told_what_does_not_answer_though_nobody_calls(monkeypatch):
    store = MemoryStore()
    given = {"module": "m.py", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}
    given["gateway"] = {"types": {"visit": {"topic": "visits"}}}
    app = gateway_of(Settings.model_validate(given), OpenGuard("127.0.0.1"), store)

    def gone():
        raise StoreUnavailable

    monkeypatch.setattr(store, "revision", gone)

    async def told():
        with capture_logs() as logs:
            async with app.router.lifespan_context(app), asyncio.timeout(30):
                while len(logs) < 2:
                    await asyncio.sleep(0.01)
        return {line["server"]: line["meanwhile"] for line in logs}

    assert asyncio.run(told()) == {
        "Kafka": "events are refused with 503",
        "the store": ("keys of the last minutes are believed, others are refused with 503"),
    }


def subject_settings(**more):
    types = {"visit": {"topic": "visits", "subject": "visits-value", **more}}
    return GatewaySettings.model_validate({"types": types})


def test_a_type_may_name_a_subject_and_its_version():
    newest = rules_of(subject_settings()).types["visit"].subject
    third = rules_of(subject_settings(version=3)).types["visit"].subject
    assert (newest.name, newest.version, third.version) == ("visits-value", None, 3)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"schema": "form.json"}, "not both"),
        ({"subject": None, "version": 2}, "none is named"),
        ({"subject": "{tenant}.visits-value"}, "pattern"),
        ({"version": 0}, "greater than"),
    ],
)
def test_a_subject_that_cannot_be_meant_is_refused(more, said):
    with pytest.raises(ValueError, match=said):
        subject_settings(**more)


def test_a_subject_without_a_registry_is_said_before_anything_is_taken():
    whole = Settings.model_validate(
        {
            "module": "m.py",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "gateway": {"types": {"visit": {"topic": "visits", "subject": "visits-value"}}},
        }
    )
    with pytest.raises(ConfigError, match=r"type visit .* schema\.registry\.url"):
        gateway_of(whole, OpenGuard("127.0.0.1"), MemoryStore())
