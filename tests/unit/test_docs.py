"""The documentation: its commands exist, its examples run, its links lead somewhere."""

import json
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import uuid
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace

import confluent_kafka.schema_registry
import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from headrace import SliceContext, use_case
from headrace.cli.app import app
from headrace.cli.init import text_of
from headrace.cli.registry import registry_beside
from headrace.cli.servers import folder_of, remember
from headrace.connectors.by_topic import open_lease_mirror, open_log, require_log
from headrace.connectors.schema_registry import registry_config
from headrace.cycle.failing import BACKOFF
from headrace.embedded.addresses import free_ports
from headrace.errors import SinkRefused, StateRefused
from headrace.formats import Avro, Json
from headrace.model.records import Deployment
from headrace.model.restarts import Restart
from headrace.model.starting import read_starting
from headrace.model.streams import LaneId, Order, Slice
from headrace.model.topic_patterns import tenants_in
from headrace.model.waves import Wave
from headrace.policies.density import SPREAD
from headrace.ports import Connections, SchemaKind, WrittenSchema
from headrace.settings import Settings, read_settings
from headrace.settings.doors import DoorsSettings
from headrace.sinks import ParquetFiles
from headrace.spark.handling import handle
from headrace.testing.format_contract import as_given, decoded
from headrace.testing.handlers import handled
from headrace.testing.records import records
from headrace.testing.schemas_fake import MemorySchemas
from headrace.use_cases import UseCase

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def blocks(page: Path, language: str) -> list[str]:
    return [body for kind, body in FENCE.findall(page.read_text()) if kind == language]


def test_the_table_of_faults_is_that_of_the_results() -> None:
    table = ROOT / "scripts" / "fault_table.py"
    subprocess.run([sys.executable, table, "--check"], check=True)


def commands() -> list[str]:
    found = set()
    for page in PAGES:
        for block in blocks(page, ""):
            for line in block.splitlines():
                command = re.split(r"\s{2,}|\s#", line.strip())[0]
                if command.startswith("headrace "):
                    found.add(command)
        found.update(re.findall(r"`(headrace [a-z][^`]*)`", page.read_text()))
    return sorted(found)


@pytest.mark.parametrize("command", commands())
def test_a_command_in_the_docs_can_be_typed(command):
    words = shlex.split(command)[1:]
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output


def test_the_docs_show_commands_at_all():
    assert len(commands()) > 15


def guides(words: str) -> str:
    """The example of the guide that has these words."""
    (found,) = (block for block in blocks(ROOT / "docs" / "guide.md", "python") if words in block)
    return found


def test_the_guides_use_case_does_what_it_says():
    names = {}
    exec(guides("def pages"), names)
    pages = names["pages"]
    assert isinstance(pages, UseCase)
    context = SliceContext(
        "pages", "acme", (Slice(LaneId("pages", "acme", "acme.visits[0]"), "acme.visits", 0, 2, 1),)
    )
    done = handle(pages, records([b'{"page": "/a"}', b"{"]), context)
    assert done.output.to_pydict() == {"tenant": ["acme"], "page": ["/a"], "visits": [1]}
    assert (done.error.code, done.error.offset) == ("BadRecord", 1)
    for other in (b"7", b"null", None):
        assert handle(pages, records([other]), context).error.code == "BadRecord"


@pytest.mark.parametrize(
    ("name", "order", "bucket"), [("scored", Order.KEY, "#5/16"), ("seen", Order.NONE, "#p5/16")]
)
def test_the_guides_use_cases_with_buckets_have_them_and_do_what_they_say(name, order, bucket):
    names = {}
    exec(guides(f"def {name}"), names)
    made = names[name]
    assert (made.order, made.divides_by) == (order, 16)
    lane = LaneId(name, "acme", f"acme.visits[0]{bucket}")
    context = SliceContext(name, "acme", (Slice(lane, "acme.visits", 0, 2, 1),))
    done = handle(made, records([b"a", b"b"]), context)
    assert done.output.to_pydict() == {"tenant": ["acme", "acme"], "place": [0, 1]}


def test_the_page_about_orders_has_each_of_them_and_tells_what_was_measured():
    page = (ROOT / "docs" / "order.md").read_text()
    measured = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    promised = page.partition("## What each promises")[2].partition("\n\nHow quick")[0]
    orders = re.findall(r"^\| `(\w+)` \|", promised, re.MULTILINE)
    assert orders == ["order", "lane", "key", "none", "stream"]
    assert set(orders[1:]) == {order.value for order in Order}
    figures = page.partition("| | records a second |")[2].partition("\n\n")[0]
    told = re.findall(r"\| ([\d,.]+) \|$", figures, re.MULTILINE)
    assert len(told) == 4
    assert all(re.search(rf"\| {re.escape(figure)}( \||:)", measured) for figure in told)
    assert f"goes more than {SPREAD:,} offsets" in page


def test_the_guides_use_case_of_a_topic_for_all_does_what_it_says():
    names = {}
    exec(guides("def viewed"), names)
    assert names["viewed"].topic == "impressions"
    rows = handled(names["viewed"], [b"a", b"b"])
    assert rows.to_pylist() == [{"lane": 0, "seen": 2}]


def test_the_guides_use_case_of_several_topics_does_what_it_says():
    names = {}
    exec(guides("def activities"), names)
    assert names["activities"].topic == "{tenant}.clicks,{tenant}.visits"
    rows = handled(names["activities"], [b"a", b"b"])
    assert rows.column_names == ["topic", "partition", "offset", "value"]
    assert rows["value"].to_pylist() == [b"a", b"b"]


def test_the_guides_use_case_of_a_pattern_does_what_it_says():
    names = {}
    exec(guides("def everything"), names)
    made = names["everything"]
    assert tenants_in(made.topic, ["acme.clicks"]) == {"acme.clicks": "acme"}
    rows = handled(made, [b"a", b"b"], topic="acme.clicks")
    assert rows["value"].to_pylist() == [b"a", b"b"]


def test_the_guides_tests_pass_beside_its_use_case(tmp_path):
    for name, words in (("use_cases.py", "def pages"), ("test_use_cases.py", "import pytest")):
        (tmp_path / name).write_text(guides(words))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_the_guide_shows_the_files_that_init_makes():
    for name, words in (
        ("use_cases.py", "def pages"),
        ("test_use_cases.py", "import pytest"),
        ("send.py", "# send.py"),
    ):
        assert text_of(name) == guides(words)
    assert text_of("headrace.yaml") == blocks(ROOT / "docs" / "guide.md", "yaml")[0]


def test_the_use_case_with_state_counts_as_its_page_says_and_its_test_passes(tmp_path):
    for block in blocks(ROOT / "docs" / "state.md", "python"):
        (tmp_path / block.splitlines()[0].removeprefix("# ")).write_text(block)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_visitors.py"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)


def test_what_is_sent_as_the_page_about_state_says_has_the_key_that_its_use_case_needs(
    tmp_path, monkeypatch
):
    page = (ROOT / "docs" / "state.md").read_text()
    line = re.search(r"^ +producer\.produce\(.*,$", page, re.MULTILINE)[0]
    plain = line.replace(', key="ada"', "")
    assert guides("# send.py").count(plain) == 1
    names, sent = {}, []

    class Producer:
        def __init__(self, config):
            del config

        def produce(self, topic, value, on_delivery, key=None):
            sent.append((topic, value.encode(), key and key.encode()))
            on_delivery(None, None)

        def flush(self):
            pass

    monkeypatch.setattr("confluent_kafka.Producer", Producer)
    monkeypatch.setattr(sys, "argv", ["send.py"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.jsonl").write_text(text_of("visits.jsonl"))
    remember(folder_of(tmp_path), {"bootstrap.servers": "127.0.0.1:1"})
    exec(guides("# send.py").replace(plain, line), {})
    exec(blocks(ROOT / "docs" / "state.md", "python")[0], names)
    _, values, keys = zip(*sent, strict=True)
    made = handled(names["visitors"], list(values), keys=list(keys)).to_pylist()
    assert made == [{"visitor": "ada", "visits": 3, "first_page": "/", "tenant": "acme"}]
    with pytest.raises(StateRefused, match="null"):
        handled(names["visitors"], list(values))


def test_what_the_guide_sends_says_what_to_do_before_there_is_a_kafka(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["send.py"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="no Kafka is known here; type 'headrace up'"):
        exec(guides("# send.py"), {})


def test_retries_take_as_long_as_the_guide_says():
    told = (ROOT / "docs" / "guide.md").read_text()
    most_s = [sum(BACKOFF.wait_s(tries, 1.0) for tries in range(count)) for count in (3, 10, 20)]
    assert most_s[0] == pytest.approx(1.4)
    assert most_s[1] < 120
    assert most_s[2] < 420
    assert Deployment("a", "a.py", "0", "{tenant}.a").retries == 3
    for words in (
        "at most 0.2 s",
        "less than 1.4 s",
        "10 take less than 2\nminutes, 20 less than 7",
    ):
        assert words in told


def test_every_python_example_of_the_guide_is_run_by_a_test_here():
    ran = (
        "def pages",
        "import pytest",
        "Json(pa.schema([\n",
        "Avro({\n",
        "# test_long_visits.py",
        "def report",
        "async def checked",
        "def archive",
        "def scored",
        "def seen",
        "def viewed",
        "def activities",
        "def everything",
        "# send.py",
        "# send_avro.py",
        "# read_avro.py",
        "import ByHeader, Topic, split",
    )
    assert {guides(words) for words in ran} == set(blocks(ROOT / "docs" / "guide.md", "python"))


class SlowFrame:
    """Writes as Spark does: empties what is there at the beginning, and has files at the end."""

    def __init__(self, meanwhile=lambda: None):
        self._meanwhile, self._overwrites = meanwhile, False
        self.write = self

    def groupBy(self, *_columns):  # noqa: N802 - Spark's name
        return self

    count = groupBy

    def mode(self, mode):
        self._overwrites = mode == "overwrite"
        return self

    def parquet(self, folder):
        folder = Path(folder)
        if self._overwrites:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=self._overwrites)
        self._meanwhile()
        (folder / uuid.uuid4().hex).write_text("2")


@pytest.fixture
def report(tmp_path):
    """The guide's use case of DataFrames, with a warehouse of its own."""
    names = {"use_case": use_case}
    exec(guides("def report").replace("/warehouse", str(tmp_path)), names)
    assert names["report"].form == "wave"
    return names["report"].handler


class Killed(BaseException):
    pass


@pytest.mark.parametrize("wakes", [True, False])
def test_the_guides_dataframe_use_case_bears_a_driver_that_slept_in_it(report, tmp_path, wakes):
    wave = Wave("w-1", "report", (), 1.0)

    def heir():
        report(SlowFrame(), wave)
        if not wakes:
            raise Killed

    with suppress(Killed):
        report(SlowFrame(heir), wave)
    (found,) = (tmp_path / "counts" / "w-1").iterdir()
    assert found.read_text() == "2"


def test_the_guides_dataframe_use_case_bears_a_driver_that_slept_before_it(report, tmp_path):
    wave = Wave("w-1", "report", (), 1.0)
    report(SlowFrame(), wave)

    def killed():
        raise Killed

    with suppress(Killed):
        report(SlowFrame(killed), wave)
    (found,) = (tmp_path / "counts" / "w-1").iterdir()
    assert found.read_text() == "2"


def test_the_guides_handler_that_waits_is_one():
    names = {}
    exec(guides("async def checked"), names)
    answers = {"/": 200, "/gone": 404}
    transport = httpx.MockTransport(lambda asked: httpx.Response(answers[asked.url.path]))
    names["client"] = httpx.AsyncClient(base_url="http://pages", transport=transport)
    rows = handled(names["checked"], [{"page": "/gone"}, {"page": "/"}])
    assert rows.select(["page", "status"]).to_pylist() == [
        {"page": "/gone", "status": 404},
        {"page": "/", "status": 200},
    ]


def test_the_guides_event_time_is_one():
    names = {}
    exec(guides("def archive"), names)
    assert names["archive"].event_time(records([b'{"at": 1}'])) == [1.0]


def test_the_guides_format_is_one():
    kind = eval(guides("Json(pa.schema([\n"), {"Json": Json, "pa": pa})
    sent = b'{"id": 1, "timestamp": "2026-11-24T10:00:00Z", "amount": "1.50", "tags": ["a"]}'
    (row,) = decoded(kind, [sent]).columns.to_pylist()
    assert (row["sent_at"].year, str(row["amount"]), row["tags"]) == (2026, "1.50", ["a"])


def test_the_guides_avro_is_one():
    kind = eval(guides("Avro({\n"), {"Avro": Avro})
    newer = json.loads(kind.text)
    newer["fields"].insert(0, {"name": "id", "type": "int"})
    schemas = MemorySchemas({7: WrittenSchema(SchemaKind.AVRO, json.dumps(newer))})
    sent = pa.chunked_array([pa.array([b"\0\0\0\0\7" + b"\2" + b"\2/" + b"\4" + b"\0"])])
    (row,) = kind.decode(as_given(sent, schemas=schemas)).columns.to_pylist()
    assert row == {"page": "/", "ms": 2, "campaign": None}


def test_the_guides_test_of_a_typed_use_case_passes(monkeypatch):
    names = {"Avro": Avro}
    kind = eval(guides("Avro({\n"), names)

    @use_case(topic="{tenant}.visits", decode=kind, sink=ParquetFiles("long"))
    def long_visits(visits, context):
        return visits.filter(pc.greater(visits["ms"], 1000)).select(["page"])

    module = ModuleType("use_cases")
    module.long_visits = long_visits
    monkeypatch.setitem(sys.modules, "use_cases", module)
    exec(guides("# test_long_visits.py"), names)
    names["test_long_visits_alone_are_kept"]()


def test_what_the_guide_sends_is_what_its_use_case_reads(tmp_path, monkeypatch):
    made, sent = {}, []

    class Producer:
        def __init__(self, config):
            made["servers"] = config["bootstrap.servers"]
            assert config["topic.metadata.propagation.max.ms"] < 5_000, "else silent for 30 s"

        def produce(self, topic, value, on_delivery):
            made["topic"] = topic
            sent.append(value.encode())
            on_delivery(None, None)

        def flush(self):
            made["flushed"] = len(sent)

    monkeypatch.setattr("confluent_kafka.Producer", Producer)
    monkeypatch.setattr(sys, "argv", ["send.py"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.jsonl").write_text(text_of("visits.jsonl"))
    remember(folder_of(tmp_path), {"bootstrap.servers": "127.0.0.1:1"})
    exec(guides("# send.py"), {})
    names = {}
    exec(guides("def pages"), names)
    written = handled(names["pages"], sent)
    assert made == {"servers": "127.0.0.1:1", "topic": "acme.visits", "flushed": 3}
    assert written["page"].to_pylist() == ["/", "/prices", "/"]


def test_what_the_guide_sends_is_not_lost_in_silence(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["send.py"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.jsonl").write_text(text_of("visits.jsonl"))
    remember(folder_of(tmp_path), {"bootstrap.servers": "127.0.0.1:1"})
    unreached = {"message.timeout.ms": 1, "log_level": 0}
    real = confluent_kafka.Producer
    monkeypatch.setattr("confluent_kafka.Producer", lambda config: real({**config, **unreached}))
    told = "3 not sent: no Kafka answers at 127.0.0.1:1; does 'headrace up' run here?"
    with pytest.raises(SystemExit, match=re.escape(told)):
        exec(guides("# send.py"), {})


class AtEnd(Exception):
    """There is nothing more to read."""


def test_what_the_guide_sends_as_avro_is_read_as_the_guide_reads_it(tmp_path, monkeypatch, capsys):
    sent = []

    class Producer:
        def __init__(self, config):
            assert config["bootstrap.servers"] == "127.0.0.1:1"

        def produce(self, topic, value, on_delivery):
            sent.append((topic, value))
            on_delivery(None, None)

        def flush(self):
            assert len(sent) == 2

    class Consumer:
        def __init__(self, config):
            assert config["bootstrap.servers"] == "127.0.0.1:1"

        def subscribe(self, topics):
            self.left = [message for message in sent if message[0] in topics]

        def poll(self, timeout):
            if not self.left:
                raise AtEnd
            topic, value = self.left.pop(0)
            return SimpleNamespace(value=lambda: value, topic=lambda: topic, error=lambda: None)

    monkeypatch.setattr("confluent_kafka.Producer", Producer)
    monkeypatch.setattr("confluent_kafka.Consumer", Consumer)
    monkeypatch.setenv("HEADRACE_SECRET", "s" * 32)
    monkeypatch.chdir(tmp_path)
    (port,) = free_ports(1)
    settings = Settings.model_validate(
        {
            "module": "use_cases.py",
            "database_url": f"sqlite:///{tmp_path}/store.db",
            "schema_registry": {"port": port},
        }
    )
    real = confluent_kafka.schema_registry.SchemaRegistryClient
    with ExitStack() as stack:
        found = stack.enter_context(registry_beside(settings, tmp_path / "key"))
        # Programs end, and their connections with them; this one goes on.
        monkeypatch.setattr(
            "confluent_kafka.schema_registry.SchemaRegistryClient",
            lambda config: stack.enter_context(real(config)),
        )
        remember(folder_of(tmp_path), {"bootstrap.servers": "127.0.0.1:1", **found})
        monkeypatch.setenv("KEY", (tmp_path / "key").read_text().strip().partition(":")[2])
        names = {}
        exec(guides("# send_avro.py"), names)
        capsys.readouterr()
        with pytest.raises(AtEnd):
            exec(guides("# read_avro.py"), {})
    told = capsys.readouterr().out.splitlines()
    assert told == ["{'page': '/', 'ms': 5}", "{'page': '/prices', 'ms': 5000}"]
    kind = eval(guides("Avro({\n"), {"Avro": Avro})
    schemas = MemorySchemas({1: WrittenSchema(SchemaKind.AVRO, names["VISIT"])})
    table = pa.chunked_array([pa.array([value for _, value in sent])])
    read = kind.decode(as_given(table, schemas=schemas)).columns.to_pylist()
    assert read[1] == {"page": "/prices", "ms": 5000, "campaign": None}


def rows_shown(folder: Path, words: str) -> str:
    """What the guide's line for the shell that has these words prints in a folder."""
    (line,) = (block for block in blocks(ROOT / "docs" / "guide.md", "") if words in block)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    command = ["/bin/sh", "-c", line]
    return subprocess.run(
        command, cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=True
    ).stdout


def test_the_guide_shows_the_rows_of_its_table_in_sqlite(tmp_path):
    remember(folder_of(tmp_path), {})
    store = sqlite3.connect(folder_of(tmp_path) / "headrace.db")
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("CREATE TABLE pages (tenant text, page text, visits bigint)")
    store.execute("INSERT INTO pages VALUES ('acme', '/', 2), ('acme', '/prices', 1)")
    store.commit()
    rows = "('acme', '/', 2)\n('acme', '/prices', 1)\n"
    assert rows_shown(tmp_path, "import sqlite3") == rows
    store.close()
    assert rows_shown(tmp_path, "import sqlite3") == rows


def test_the_guide_shows_the_rows_of_its_table_in_postgresql(tmp_path):
    remember(folder_of(tmp_path), {"database_url": "postgresql://u:secret@127.0.0.1:1/up"})
    (tmp_path / "psycopg.py").write_text(
        "class connect:\n"
        "    def __init__(self, url):\n"
        "        self.url = url\n"
        "    def execute(self, sql):\n"
        "        return [(self.url, sql)]\n"
    )
    told = rows_shown(tmp_path, "psycopg.connect(url).execute(")
    assert told == "('postgresql://u:secret@127.0.0.1:1/up', 'SELECT * FROM pages')\n"


def test_with_the_guides_first_yaml_file_up_starts_every_server(tmp_path):
    settings = guides_settings(tmp_path, 0)
    assert settings.module == "use_cases.py"
    assert settings.kafka == {}
    assert not settings.names_a_store({})
    assert settings.mail_url({}) is None


def test_the_guides_other_yaml_files_leave_the_master_to_the_command(tmp_path):
    whole = guides_settings(tmp_path, 4)
    assert whole.names_a_store({})
    assert whole.master is None
    cluster = guides_settings(tmp_path, 5)
    assert cluster.driver.most_slots == 16
    assert cluster.master is None


def guides_settings(folder: Path, number: int):
    path = folder / "headrace.yaml"
    text = blocks(ROOT / "docs" / "guide.md", "yaml")[number]
    path.write_text(text if "module:" in text else f"module: use_cases.py\n{text}")
    environment = {"DATABASE_URL": "postgresql://u@db/x"}
    return read_settings(path, environment)


def test_the_guides_beginning_is_a_time(tmp_path):
    pages = guides_settings(tmp_path, 1).of_use_case("pages")
    assert pages.startingOffsets == "2026-11-01T00:00:00+00:00"


def test_the_guides_streams_that_must_not_lag_are_ones(tmp_path):
    told = guides_settings(tmp_path, 2).of_use_case("anomalies")
    assert told.restarts == Restart(300.0, 30.0)


def test_the_use_case_of_the_page_about_kinesis_is_one_and_its_file_names_its_connection(tmp_path):
    page = ROOT / "docs" / "kinesis.md"
    (code, _), (yaml, role, leases) = blocks(page, "python"), blocks(page, "yaml")
    names = {}
    exec(code, names)
    rows = handled(names["counted"], [b"a"]).to_pylist()
    assert rows == [{"tenant": "acme", "key": None, "value": "a"}]
    path = tmp_path / "headrace.yaml"
    path.write_text(yaml.replace("/run/secrets/clicks", "secret"))
    (tmp_path / "secret").write_text("wJalr")
    settings = read_settings(path, {}).within(tmp_path)
    require_log(names["counted"].topic, Connections({}, "", servers=settings.servers()))
    path.write_text(f"module: use_cases.py\n{role}")
    servers = read_settings(path, {}).servers()
    require_log(names["counted"].topic, Connections({}, "", servers=servers))
    assert servers["clicks"].is_of_a_tenant
    path.write_text(f"module: use_cases.py\n{leases}")
    shows = read_settings(path, {})
    kafka = {"bootstrap.servers": "127.0.0.1:1"}
    connections = Connections(kafka, "", servers=shows.servers())
    with closing(open_log(connections)) as log:
        named = shows.driver.mirror_leases, shows.driver.mirror_prefix
        assert named == ("entities", "headrace.")
        open_lease_mirror(log, connections, *named).close()
    said = re.findall(
        r"`(?:headrace [^`]* --to )?([A-Z]+_?[A-Z]+(?: 2026[^`]*)?)`", page.read_text()
    )
    places = {word.split()[0] for word in said if read_starting_or_none(word) is not None}
    assert places == {"TRIM_HORIZON", "LATEST", "AT_TIMESTAMP"}


def read_starting_or_none(text):
    with suppress(ValueError):
        return read_starting(text)
    return None


def test_the_guides_registry_is_one(tmp_path):
    (tmp_path / "registry-user").write_text("me:hunter2\n")
    config = registry_config(guides_settings(tmp_path, 3).registry_properties())
    assert str(config) == "https://registry-1:8081, https://registry-2:8081"
    assert config.ca == "/etc/ssl/registry-ca.pem"


def test_the_page_of_sinks_encodes_what_it_shows():
    (example,) = (
        block for block in blocks(ROOT / "docs" / "sinks.md", "python") if "VISIT =" in block
    )
    names = {}
    exec("from headrace.formats import *\nfrom headrace.sinks import *\n" + example, names)
    sink = eval(example.split("\n\n")[1], names)
    sink.check(pa.table({"lead": ["a"], "ms": [1], "key": ["k"]}))
    bad = pa.table({"lead": ["a"] * 8, "ms": [*range(7), 2**40], "key": ["k"] * 8})
    with pytest.raises(SinkRefused) as told:
        sink.check(bad)
    page = (ROOT / "docs" / "sinks.md").read_text()
    assert str(told.value).partition("the value")[2] in page


def test_the_help_and_the_guide_tell_the_same_line_for_spark_submit(monkeypatch):
    line = next(
        line
        for block in blocks(ROOT / "docs" / "guide.md", "")
        for line in block.splitlines()
        if line.startswith("spark-submit")
    )
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 200)
    assert line in CliRunner().invoke(app, ["run", "--help"]).output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_in_the_docs_exist():
    made = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"`?make ([a-z]+)", " ".join(blocks(page, ""))):
            assert target in made, f"{page.name}: make {target}"


def test_tables_of_records_have_the_columns_that_the_guide_names():
    told = re.search(
        r"columns of a record .*?:\s(.*?)\.", (ROOT / "docs/guide.md").read_text(), re.DOTALL
    )
    assert re.findall(r"`(\w+)`", told.group(1)) == records([]).column_names
    assert isinstance(records([]), pa.Table)


def test_each_yaml_file_of_the_security_page_is_one(tmp_path):
    texts = blocks(ROOT / "docs" / "security.md", "yaml")
    assert len(texts) == 3
    for text in texts:
        path = tmp_path / "headrace.yaml"
        path.write_text(text)
        assert read_settings(path, {}).doors != DoorsSettings()


def test_the_guides_shared_topic_is_divided(monkeypatch):
    names = {}
    exec(guides("import ByHeader, Topic, split"), names)
    by_tenant, parked = names["by_tenant"], names["parked"]
    assert (by_tenant.name, parked.name) == ("split", "split-parked")
    assert parked.topic == "{tenant}.visits.split.parked"
    headers = [[{"key": "customer", "value": b"acme"}], None]
    sent = records([b"v", b"w"])
    sent = sent.set_column(6, sent.schema.field(6), pa.array(headers, sent.schema.field(6).type))
    known = SimpleNamespace(there=lambda wanted: frozenset(wanted) & {"acme"})
    context = SliceContext("split", "shared", (), tenants=known)
    assert by_tenant(sent, context)["tenant"].to_pylist() == ["acme", None]
