"""Every metric of the gateway is documented, with its labels."""

import re
from pathlib import Path

from headrace.connectors.kafka.ingest import Stored
from headrace.gateway.events import EventFault
from headrace.gateway.metrics import GatewayMetrics
from headrace.gateway.rates import RequestRoom
from headrace.gateway.subjects import Subject

DOCS = (Path(__file__).parents[3] / "docs" / "gateway.md").read_text()


def shown(text):
    """Names and labels of a scrape."""
    found = {}
    for name, labels in re.findall(
        r"^(headrace_\w+?)(?:_bucket|_sum|_count)?(?:{(.*)})? ", text, re.MULTILINE
    ):
        own = {label for label in re.findall(r"(\w+)=", labels) if label != "le"}
        found.setdefault(name, set()).update(own)
    return {name: own for name, own in found.items() if not name.endswith("_created")}


def test_what_is_shown_is_what_the_docs_say():
    figures = GatewayMetrics(RequestRoom(10), {"visit": Subject("visits-value")})
    figures.answered(202, 0.1)
    figures.took("visit", 100, [Stored(0, 0), EventFault(422, "a", "b"), EventFault(503, "a", "b")])
    documented = {
        name: set(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(headrace_\w+)` \| (.*?) \|", DOCS, re.MULTILINE)
    }
    assert shown(figures.exposition().decode()) == documented


def test_events_are_counted_by_their_fate():
    figures = GatewayMetrics(RequestRoom(10))
    figures.took("visit", 100, [Stored(0, 0)] * 3 + [EventFault(503, "a", "b")])
    text = figures.exposition().decode()
    assert 'headrace_gateway_events_total{result="stored",type="visit"} 3.0' in text
    assert 'headrace_gateway_events_total{result="failed",type="visit"} 1.0' in text
    assert 'result="refused"' not in text
