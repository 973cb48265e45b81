"""Runs Gherkin scenarios of a schema registry that others wrote against ours.

The AxonOps registry (Apache-2.0, github.com/axonops/axonops-schema-registry) tells in scenarios,
in ``tests/bdd/features``, what Confluent's API does. They are not kept here: whoever wants the
share that passes clones that repository, and types

    python tests/registry_scenarios.py .../tests/bdd/features

Left out are files about what is no part of Confluent's open API or not of this registry (``OUT``),
steps that look into an audit log of their own form, and scenarios with a step that is not known
here. What fails is listed, scenario by scenario.
"""

import json
import logging
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from starlette.testclient import TestClient

from headrace.doors.open_guard import OpenGuard
from headrace.schema_registry.app import RegistryParts, registry_app
from headrace.schema_registry.judges import JudgesHere
from headrace.schema_registry.owners import Owners
from headrace.testing.memory_store import MemoryStore

OUT = re.compile(
    "mcp|auth|admin|audit|account|context|dek|kms|encoding|exporter|metrics|rulesets|tls"
    "|import_advanced|import_conflict|schema_import"
    "|rate_limit|security|compare_and_set|groups|config_merge|documentation|health|analysis|rules"
    "|statistics|schema_search|schema_validation|subject_validation|diff_evolve|history_export"
    "|aliases|reserved_fields|schema_identity"
)
STEP = re.compile(r"\s*(?:Given|When|Then|And|But)\s+(.*)")
JUDGES = JudgesHere()


@dataclass
class Scenario:
    name: str
    steps: list = field(default_factory=list)


def scenarios(text):  # noqa: C901 - a line for each kind of line
    """The scenarios of a file, each with the steps of the background; outlines are filled in."""
    background, found, lines = [], [], text.splitlines()
    steps, outline, header = None, None, None
    at = 0
    while at < len(lines):
        line = lines[at].strip()
        at += 1
        if line.startswith(("Scenario:", "Example:")):
            found.append(Scenario(line.partition(":")[2].strip(), list(background)))
            steps, outline = found[-1].steps, None
        elif line.startswith("Scenario Outline:"):
            outline = Scenario(line.partition(":")[2].strip(), list(background))
            steps, header = outline.steps, None
        elif line.startswith("Background:"):
            steps = background
        elif line.startswith("Examples:"):
            steps, header = None, None
        elif line.startswith("|") and steps is None and outline is not None:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if header is None:
                header = cells
            else:
                found.append(filled(outline, dict(zip(header, cells, strict=True))))
        elif line.startswith('"""') and steps:
            block = []
            while lines[at].strip() != '"""':
                block.append(lines[at])
                at += 1
            at += 1
            steps[-1] = (steps[-1][0], "\n".join(block), steps[-1][2])
        elif line.startswith("|") and steps:
            steps[-1][2].append([cell.strip() for cell in line.strip("|").split("|")])
        elif (step := STEP.match(line)) and steps is not None:
            steps.append((step[1], None, []))
    return found


def filled(outline, values):
    def put(text):
        for name, value in values.items():
            text = None if text is None else text.replace(f"<{name}>", value)
        return text

    return Scenario(put(outline.name), [(put(a), put(b), c) for a, b, c in outline.steps])


class UnknownStepError(Exception):
    """A step that is not known here."""


class World:
    """One scenario on a registry of its own."""

    def __init__(self):
        store = MemoryStore()
        parts = RegistryParts(store, OpenGuard("127.0.0.1"), JUDGES, Owners(store))
        self.client = TestClient(registry_app(parts), raise_server_exceptions=False)
        self.response, self.many, self.kept = None, [], {}

    def send(self, method, path, body=None):
        for name, value in self.kept.items():
            path = path.replace("{{" + name + "}}", str(value))
            body = body.replace("{{" + name + "}}", str(value)) if isinstance(body, str) else body
        content = json.dumps(body) if isinstance(body, dict) else body
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        self.response = self.client.request(method, path, content=content, headers=headers)
        value = self.value()
        if isinstance(value, dict) and "id" in value:
            self.kept["schema_id"] = value["id"]

    def register(self, subject, text, kind="AVRO", references=(), must=False):
        body = {"schema": text, "schemaType": kind, "references": list(references)}
        self.send("POST", f"/subjects/{subject}/versions", body)
        assert not must or self.response.status_code == 200, self.response.text

    @staticmethod
    def of_record(name, subject):
        """What registers a record of this name."""
        text = json.dumps({"type": "record", "name": name, "fields": []})
        return "POST", f"/subjects/{subject}/versions", {"schema": text}

    def one(self, method, path, body):
        return self.client.request(method, path, json=body)

    def at_once(self, asked):
        """Requests of as many threads, and what each is answered."""
        with ThreadPoolExecutor(len(asked)) as threads:
            self.many = [*threads.map(lambda one: self.one(*one), asked)]

    def value(self):
        try:
            return self.response.json()
        except ValueError:
            return None

    def at(self, name):
        value = self.value()
        for part in name.split("."):
            value = value[int(part)] if isinstance(value, list) else (value or {}).get(part)
        return value


def step(pattern):
    def known(do):
        STEPS.append((re.compile(pattern), do))
        return do

    return known


def is_(found, wanted, world):
    assert found == wanted, f"{found!r} is not {wanted!r} in {world.response.text[:300]}"


STEPS = []
Q = r'"([^"]*)"'
step(r"the schema registry is running|no subjects exist")(lambda w, b, t: None)
step(rf"subject {Q} has schema:")(lambda w, b, t, s: w.register(s, b, must=True))
step(rf"subject {Q} has {Q} schema:")(lambda w, b, t, s, k: w.register(s, b, k, must=True))
step(rf"the global compatibility level is {Q}|I set the global compatibility level to {Q}")(
    lambda w, b, t, *levels: w.send("PUT", "/config", {"compatibility": next(filter(None, levels))})
)
step(rf"I set the global config to {Q}")(
    lambda w, b, t, level: w.send("PUT", "/config", {"compatibility": level})
)
step(rf"subject {Q} has compatibility level {Q}")(
    lambda w, b, t, s, level: w.send("PUT", f"/config/{s}", {"compatibility": level})
)
step(rf"I set the config for subject {Q} to {Q}")(
    lambda w, b, t, s, level: w.send("PUT", f"/config/{s}", {"compatibility": level})
)
step(rf"(?:I set the global mode to|the global mode is) {Q}")(
    lambda w, b, t, mode: w.send("PUT", "/mode?force=true", {"mode": mode})
)
step(rf"I set the mode for subject {Q} to {Q}")(
    lambda w, b, t, s, mode: w.send("PUT", f"/mode/{s}?force=true", {"mode": mode})
)
step(rf"I (GET|DELETE|PATCH) {Q}")(lambda w, b, t, method, path: w.send(method, path))
step(rf"I (POST|PUT) {Q}(?: with body:)?")(lambda w, b, t, m, path: w.send(m, path, b or ""))
step(rf"I POST {Q} with raw body {Q}")(lambda w, b, t, path, body: w.send("POST", path, body))
step(rf"I register a schema under subject {Q}:")(lambda w, b, t, s: w.register(s, b))
step(rf"I register a schema under subject {Q} with references:")(
    lambda w, b, t, s: w.send("POST", f"/subjects/{s}/versions", json.loads(b))
)
step(rf"I register a {Q} schema under subject {Q} with references:")(
    lambda w, b, t, k, s: w.send(
        "POST", f"/subjects/{s}/versions", json.loads(b) | {"schemaType": k}
    )
)
step(rf"subject {Q} has {Q} schema with reference {Q} from subject {Q} version (\d+):")(
    lambda w, b, t, s, k, name, other, v: w.register(
        s, b, k, [{"name": name, "subject": other, "version": int(v)}], must=True
    )
)
step(rf"I get the raw schema for subject {Q} version (\d+)")(
    lambda w, b, t, s, v: w.send("GET", f"/subjects/{s}/versions/{v}/schema")
)
step(r"I get (the raw )?schema by ID (\{\{.*\}\})")(
    lambda w, b, t, raw, i: w.send("GET", f"/schemas/ids/{i}" + ("/schema" if raw else ""))
)
step(r"I get (?:the )?(subjects|versions) for schema ID (\{\{.*\}\})")(
    lambda w, b, t, what, i: w.send("GET", f"/schemas/ids/{i}/{what}")
)
step(r"I delete the global config")(lambda w, b, t: w.send("DELETE", "/config"))
step(rf"I delete the mode for subject {Q}")(lambda w, b, t, s: w.send("DELETE", f"/mode/{s}"))
step(rf"I permanently delete version (\d+) of subject {Q}")(
    lambda w, b, t, v, s: w.send("DELETE", f"/subjects/{s}/versions/{v}?permanent=true")
)
step(rf"I register a {Q} schema under subject {Q}:")(lambda w, b, t, k, s: w.register(s, b, k))
step(r"I get schema by ID (\d+)")(lambda w, b, t, i: w.send("GET", f"/schemas/ids/{i}"))
step(r"I get the stored schema by ID")(
    lambda w, b, t: w.send("GET", f"/schemas/ids/{w.kept['schema_id']}")
)
step(rf"I get version (\d+) of subject {Q}")(
    lambda w, b, t, v, s: w.send("GET", f"/subjects/{s}/versions/{v}")
)
step(rf"I get the latest version of subject {Q}")(
    lambda w, b, t, s: w.send("GET", f"/subjects/{s}/versions/latest")
)
step(r"I list all subjects")(lambda w, b, t: w.send("GET", "/subjects"))
step(r"I list subjects with deleted")(lambda w, b, t: w.send("GET", "/subjects?deleted=true"))
step(rf"I list versions of subject {Q}")(
    lambda w, b, t, s: w.send("GET", f"/subjects/{s}/versions")
)
step(rf"I delete subject {Q}")(lambda w, b, t, s: w.send("DELETE", f"/subjects/{s}"))
step(rf"I permanently delete subject {Q}")(
    lambda w, b, t, s: w.send("DELETE", f"/subjects/{s}?permanent=true")
)
step(rf"I delete version (\d+) of subject {Q}")(
    lambda w, b, t, v, s: w.send("DELETE", f"/subjects/{s}/versions/{v}")
)
step(r"I get the schema types")(lambda w, b, t: w.send("GET", "/schemas/types"))
step(rf"I lookup schema in subject {Q}:")(
    lambda w, b, t, s: w.send("POST", f"/subjects/{s}", {"schema": b})
)
step(rf"I lookup a {Q} schema in subject {Q}:")(
    lambda w, b, t, k, s: w.send("POST", f"/subjects/{s}", {"schema": b, "schemaType": k})
)
step(rf"I lookup schema in subject {Q} with deleted:")(
    lambda w, b, t, s: w.send("POST", f"/subjects/{s}?deleted=true", {"schema": b})
)
CHECK = "/compatibility/subjects/{}/versions/latest"
step(rf"I check compatibility of schema against subject {Q}:")(
    lambda w, b, t, s: w.send("POST", CHECK.format(s), {"schema": b})
)
step(rf"I check compatibility of {Q} schema against subject {Q}:")(
    lambda w, b, t, k, s: w.send("POST", CHECK.format(s), {"schema": b, "schemaType": k})
)
step(rf"I check compatibility of schema against all versions of subject {Q}:")(
    lambda w, b, t, s: w.send("POST", f"/compatibility/subjects/{s}/versions", {"schema": b})
)
step(rf"I check compatibility of schema against subject {Q} version (\d+):")(
    lambda w, b, t, s, v: w.send("POST", f"/compatibility/subjects/{s}/versions/{v}", {"schema": b})
)
step(
    rf"I check compatibility of {Q} schema with reference {Q} from subject {Q} version (\d+) "
    rf"against subject {Q}:"
)(
    lambda w, b, t, k, name, other, v, s: w.send(
        "POST",
        CHECK.format(s),
        {
            "schema": b,
            "schemaType": k,
            "references": [{"name": name, "subject": other, "version": int(v)}],
        },
    )
)
step(r"I get the global config")(lambda w, b, t: w.send("GET", "/config"))
step(rf"I get the config for subject {Q}")(lambda w, b, t, s: w.send("GET", f"/config/{s}"))
step(rf"I delete the config for subject {Q}")(lambda w, b, t, s: w.send("DELETE", f"/config/{s}"))
step(r"I get the global mode")(lambda w, b, t: w.send("GET", "/mode"))
step(rf"I get the mode for subject {Q}")(lambda w, b, t, s: w.send("GET", f"/mode/{s}"))
step(r"I get the subjects for schema ID (\d+)")(
    lambda w, b, t, i: w.send("GET", f"/schemas/ids/{i}/subjects")
)
step(r"I get the subjects for the stored schema ID")(
    lambda w, b, t: w.send("GET", f"/schemas/ids/{w.kept['schema_id']}/subjects")
)
step(r"I list all schemas")(lambda w, b, t: w.send("GET", "/schemas"))
step(rf"I get the referenced by for subject {Q} version (\d+)")(
    lambda w, b, t, s, v: w.send("GET", f"/subjects/{s}/versions/{v}/referencedby")
)
step(r"the response status should be (\d+)")(
    lambda w, b, t, n: is_(w.response.status_code, int(n), w)
)
step(r"the response should have error code (\d+)")(
    lambda w, b, t, n: is_(w.at("error_code"), int(n), w)
)
step(rf"the response field {Q} should be {Q}")(lambda w, b, t, f, v: is_(str(w.at(f)), v, w))
step(rf"the response field {Q} should be (\d+)")(lambda w, b, t, f, v: is_(w.at(f), int(v), w))
step(rf"the response field {Q} should be (true|false)")(
    lambda w, b, t, f, v: is_(w.at(f), v == "true", w)
)
step(r"the compatibility check should be (in)?compatible")(
    lambda w, b, t, no: is_(w.at("is_compatible"), not no, w)
)
step(rf"the response should have field {Q}")(lambda w, b, t, f: is_(w.at(f) is None, False, w))
step(rf"the response should not have field {Q}")(
    lambda w, b, t, f: is_(isinstance(w.value(), dict) and f in w.value(), False, w)
)
step(r"the response should be an array of length (\d+)")(
    lambda w, b, t, n: is_(len(w.value()), int(n), w)
)
step(rf"the response array should contain {Q}")(lambda w, b, t, v: is_(v in w.value(), True, w))
step(rf"the response array should not contain {Q}")(
    lambda w, b, t, v: is_(v in w.value(), False, w)
)
step(r"the response array should contain integer (\d+)")(
    lambda w, b, t, v: is_(int(v) in w.value(), True, w)
)
step(r"the response should be an integer with value (\d+)")(
    lambda w, b, t, v: is_(w.value(), int(v), w)
)
step(rf"the response (?:body )?should contain {Q}")(
    lambda w, b, t, v: is_(v in w.response.text, True, w)
)
step(rf"the response (?:body )?should not contain {Q}")(
    lambda w, b, t, v: is_(v in w.response.text, False, w)
)
step(r"the response should be valid JSON")(lambda w, b, t: is_(w.value() is None, False, w))
step(rf"I store the response field {Q} as {Q}")(
    lambda w, b, t, f, name: w.kept.update({name: w.at(f)})
)
step(rf"the response field {Q} should equal stored {Q}")(
    lambda w, b, t, f, name: is_(w.at(f), w.kept[name], w)
)
step(rf"the response field {Q} should not equal stored {Q}")(
    lambda w, b, t, f, name: is_(w.at(f) != w.kept[name], True, w)
)
step(rf"(?:the )?stored {Q} should be greater than (\d+)")(
    lambda w, b, t, name, n: is_(int(w.kept[name]) > int(n), True, w)
)
step(rf"the response field {Q} should be non-empty")(lambda w, b, t, f: is_(bool(w.at(f)), True, w))
step(rf"the response field {Q} should be an array")(
    lambda w, b, t, f: is_(isinstance(w.at(f), list), True, w)
)
step(rf"the response field {Q} should be an array of length (\d+)")(
    lambda w, b, t, f, n: is_(len(w.at(f)), int(n), w)
)


step(rf"the response header {Q} should contain {Q}")(
    lambda w, b, t, name, v: is_(v in w.response.headers.get(name, ""), True, w)
)
step(rf"the response array should contain stored integer {Q}")(
    lambda w, b, t, name: is_(w.kept[name] in w.value(), True, w)
)
step(rf"subject {Q} has mode {Q}")(
    lambda w, b, t, s, mode: w.send("PUT", f"/mode/{s}", {"mode": mode})
)


@step(rf"subject {Q} should have exactly (\d+) versions?")
def _(w, b, t, s, n):
    w.send("GET", f"/subjects/{s}/versions")
    is_(len(w.value()), int(n), w)


step(r"(\d+) goroutines each register a unique Avro schema to separate subjects")(
    lambda w, b, t, n: w.at_once([w.of_record(f"R{i}", f"apart-{i}") for i in range(int(n))])
)
step(rf"(\d+) goroutines register the same Avro schema to subject {Q}")(
    lambda w, b, t, n, s: w.at_once([w.of_record("Same", s)] * int(n))
)
step(rf"(\d+) goroutines attempt to register schemas to subject {Q}")(
    lambda w, b, t, n, s: w.at_once([w.of_record(f"R{i}", s) for i in range(int(n))])
)
step(r"(\d+) subjects each with one Avro schema")(
    lambda w, b, t, n: [w.one(*w.of_record(f"R{i}", f"own-{i}")) for i in range(int(n))]
)
step(r"(\d+) goroutines each soft-delete their own subject")(
    lambda w, b, t, n: w.at_once([("DELETE", f"/subjects/own-{i}", None) for i in range(int(n))])
)
step(
    r"(\d+) writer goroutines add versions and (\d+) reader goroutines read latest from "
    rf"subject {Q}"
)(
    lambda w, b, t, n, m, s: w.at_once(
        [w.of_record(f"R{i}", s) for i in range(int(n))]
        + [("GET", f"/subjects/{s}/versions/latest", None)] * int(m)
    )
)
step(r"all concurrent results should succeed")(
    lambda w, b, t: is_({one.status_code for one in w.many}, {200}, w)
)
step(r"all concurrent results should have status (\d+)")(
    lambda w, b, t, n: is_({one.status_code for one in w.many}, {int(n)}, w)
)
step(r"no concurrent results should have a 500 status")(
    lambda w, b, t: is_(500 in {one.status_code for one in w.many}, False, w)
)
step(r"all returned schema IDs should be unique")(
    lambda w, b, t: is_(len({one.json()["id"] for one in w.many}), len(w.many), w)
)
step(r"all returned schema IDs should be identical")(
    lambda w, b, t: is_(len({one.json()["id"] for one in w.many}), 1, w)
)
step(r"all reader responses should contain a valid schema")(
    lambda w, b, t: is_(
        all(json.loads(one.json()["schema"]) for one in w.many if one.request.method == "GET"),
        True,
        w,
    )
)


@step(r"GET /subjects should return an empty array")
def _(w, b, t):
    w.send("GET", "/subjects")
    is_(w.value(), [], w)


def run(scenario):
    """What of it is not so; None: all is. ``UnknownStepError``: it is not for us."""
    world = World()
    for text, block, table in scenario.steps:
        if text.startswith("the audit log"):
            continue
        for pattern, do in STEPS:
            if match := pattern.fullmatch(text):
                try:
                    do(world, block, table, *match.groups())
                except (AssertionError, AttributeError, TypeError, KeyError, IndexError) as fault:
                    return f"{text}: {type(fault).__name__} {fault}"
                break
        else:
            raise UnknownStepError(text)
    return None


def main(folder):
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    passed, failed, unknown = 0, [], Counter()
    for path in sorted(Path(folder).rglob("*.feature")):
        if OUT.search(path.relative_to(folder).as_posix()):
            continue
        for scenario in scenarios(path.read_text("utf-8")):
            try:
                fault = run(scenario)
            except UnknownStepError as step:
                unknown[re.sub(r'"[^"]*"', '"X"', str(step))] += 1
                continue
            if fault is None:
                passed += 1
            else:
                failed.append(f"{path.stem}: {scenario.name}: {fault}")
    print(*failed, sep="\n")
    print(f"{passed} of {passed + len(failed)} pass; {sum(unknown.values())} have unknown steps:")
    print(*(f"  {times} {step}" for step, times in unknown.most_common(40)), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
