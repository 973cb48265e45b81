"""Avro in and out, by ids of a real registry that hangs and comes back, in a whole service."""

import io
import json
import time
import urllib.request

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from service import Service, ended

from headrace.connectors.kafka import create_topics
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

USE_CASES = """
import io
import json

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader

from headrace import use_case
from headrace.errors import RegistryUnavailable
from headrace.formats import AvroOutput, Text
from headrace.ports import Decoded, Waiting
from headrace.sinks import KafkaTopic

COLUMNS = pa.schema([("number", pa.int64())])

class Framed:
    needs_registry = True

    def schema(self, column):
        return COLUMNS

    def decode(self, payloads):
        rows, waiting = [], None
        for row, payload in enumerate(payloads.bytes.to_pylist()):
            try:
                found = payloads.schemas.schema(int.from_bytes(payload[1:5], "big"))
            except RegistryUnavailable as error:
                waiting = Waiting(row, error)
                break
            schema = parse_schema(json.loads(found.text))
            rows.append({{"number": schemaless_reader(io.BytesIO(payload[5:]), schema)["number"]}})
        return Decoded(pa.Table.from_pylist(rows, COLUMNS), waiting=waiting)

SQUARE = {{
    "type": "record",
    "name": "Square",
    "fields": [{{"name": "number", "type": "long"}}, {{"name": "square", "type": "long"}}],
}}

@use_case(
    topic="{{tenant}}.{topic}",
    sink=KafkaTopic(
        "{{tenant}}.{topic}-out", encode=AvroOutput(SQUARE), encode_key=Text(), transactional=True
    ),
    decode=Framed(),
    guarantee="exactly-once",
)
def square(table, context):
    numbers = table["number"].to_pylist()
    columns = {{"number": numbers, "square": [number**2 for number in numbers]}}
    return pa.table({{**columns, "key": [context.tenant] * len(numbers)}})
"""


def number_schema(**more):
    fields = [
        {"name": "number", "type": "int"},
        *({"name": name, **told} for name, told in more.items()),
    ]
    return json.dumps({"type": "record", "name": "Number", "fields": fields})


class TypedService(Service):
    """Reads numbers and writes their squares."""

    def __init__(self, folder, kafka, topic, registry):
        super().__init__(folder, kafka.bootstrap_servers, topic)
        self.registry, self.topics = registry, KafkaTopics(kafka.bootstrap_servers)
        self.known = {}
        settings = folder / "headrace.yaml"
        # One worker: what one knows another one has to ask for.
        text = settings.read_text().replace("local[2]", "local[1]")
        settings.write_text(f"{text}registry:\n  schema.registry.url: {registry.url}\n")
        subject = f"{topic}-numbers"
        self.schemas = [number_schema(), number_schema(note={"type": "string", "default": "x"})]
        self.ids = [registry.put(subject, text) for text in self.schemas]
        for tenant in ("acme", "bolt"):
            create_topics(self.config, {f"{tenant}.{topic}-out": 1})

    def write(self, version):
        (self.folder / "use_cases.py").write_text(USE_CASES.format(topic=self.topic))

    def numbers(self, tenant, *numbers, version=0):
        schema = parse_schema(json.loads(self.schemas[version]))
        values = []
        for number in numbers:
            out = io.BytesIO()
            schemaless_writer(out, schema, {"number": number})
            values.append(b"\0" + self.ids[version].to_bytes(4, "big") + out.getvalue())
        self.send(tenant, *values)

    def squares(self, tenant):
        found = []
        for message in self.topics.messages(f"{tenant}.{self.topic}-out"):
            value = message.value()
            assert value[:1] == b"\0"
            row = schemaless_reader(io.BytesIO(value[5:]), self._schema(value[1:5]))
            assert row["square"] == row["number"] ** 2
            assert message.key() == tenant.encode()
            found.append(row["number"])
        return found

    def _schema(self, framed):
        """What the registry has under the id that a message begins with."""
        id_ = int.from_bytes(framed, "big")
        if id_ not in self.known:
            with urllib.request.urlopen(f"{self.registry.url}/schemas/ids/{id_}") as answer:
                self.known[id_] = parse_schema(json.loads(json.load(answer)["schema"]))
        return self.known[id_]

    def until_squares(self, tenant, count):
        give_up_s = time.monotonic() + 90
        while len(found := self.squares(tenant)) < count:
            assert time.monotonic() < give_up_s, f"{found}\n{self.log.read_text()[-5000:]}"
            time.sleep(0.2)
        return found


def test_records_of_known_schemas_go_on_while_the_registry_hangs_and_the_others_wait_in_order(
    tmp_path, kafka, registry
):
    service = TypedService(tmp_path, kafka, f"t{time.time_ns()}", registry)
    assert service.headrace("use-cases", "deploy").returncode == 0
    for tenant in ("acme", "bolt"):
        service.numbers(tenant, 1, 2)
        assert service.headrace("tenants", "add", tenant).returncode == 0
    process = service.run()
    for tenant in ("acme", "bolt"):
        assert service.until_squares(tenant, 2) == [1, 2]

    with registry.hanging():
        service.numbers("acme", 3)
        assert service.until_squares("acme", 3) == [1, 2, 3]
        service.numbers("acme", 4, version=1)
        service.numbers("acme", 5)
        service.numbers("bolt", 3, 4, 5)
        assert service.until_squares("bolt", 5) == [1, 2, 3, 4, 5]
        assert service.squares("acme") == [1, 2, 3]
    assert service.until_squares("acme", 5) == [1, 2, 3, 4, 5]

    ended(process, service)
    assert service.squares("bolt") == [1, 2, 3, 4, 5]
    assert service.squares("acme") == [1, 2, 3, 4, 5]


def test_a_use_case_that_asks_a_registry_is_not_deployed_where_there_is_none(
    tmp_path, kafka, registry
):
    service = TypedService(tmp_path, kafka, f"t{time.time_ns()}", registry)
    settings = tmp_path / "headrace.yaml"
    settings.write_text(settings.read_text().partition("registry:")[0])
    done = service.headrace("use-cases", "deploy")
    assert done.returncode != 0
    assert "say registry: schema.registry.url" in done.stderr
