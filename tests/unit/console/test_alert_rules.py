"""The rules for Prometheus and the dashboard for Grafana: they are valid, and mean our metrics."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from headrace.console.metric_list import METRICS

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "prometheus" / "headrace-rules.yml"
PLAYED = Path(__file__).with_name("rules_test.yml")
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "headrace.json").read_text("utf-8"))
DECLARED = {metric.name: metric for metric in METRICS}
#: a metric in an expression, with what stands in its braces
_USED = re.compile(r"\b((?:headrace|kafka)_[a-z_]+)(?:\{([^}]*)\})?")
_LABEL = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")

promtool = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="there is no promtool: scripts/setup-tests installs it on Debian, as root",
)


def rules():
    groups = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions():
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


def said_of(*command):
    done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@promtool
def test_prometheus_takes_the_rules():
    assert f"{len(rules())} rules found" in said_of("check", "rules", str(RULES))


@promtool
def test_each_alert_fires_when_it_should_and_not_before():
    assert "SUCCESS" in said_of("test", "rules", str(PLAYED))


def test_every_alert_is_played():
    played = yaml.safe_load(PLAYED.read_text("utf-8"))["tests"]
    fired = {
        case["alertname"]
        for test in played
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert fired == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_an_expression_uses_declared_metrics_with_their_labels(where, expression):
    found = _USED.findall(expression)
    assert found, where
    for name, braces in found:
        assert name in DECLARED, f"{where}: there is no metric {name}"
        for label in _LABEL.findall(braces):
            assert label in DECLARED[name].labels, f"{where}: {name} has no label {label}"


def test_an_alert_says_how_bad_it_is_and_leads_to_what_to_do():
    text = (ROOT / "docs" / "observability.md").read_text("utf-8")
    anchors = {_anchor(line) for line in text.splitlines() if line.startswith("#")}
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
        assert page == "docs/observability.md"
        assert anchor in anchors, f"{rule['alert']}: {page} has no section {anchor}"


def test_the_dashboard_can_be_imported_as_it_is():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    assert "id" not in DASHBOARD, "an id belongs to one Grafana"
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {source["uid"] for source in sources} == {"${datasource}"}


def test_no_two_panels_lie_on_each_other():
    taken = {}
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                other = taken.setdefault((x, y), panel["title"])
                assert other == panel["title"]


def _anchor(heading):
    words = heading.lstrip("#").strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
