"""A real service under fault: Kafka, drivers, five use cases with a guarantee each, a ledger.

Every record carries nothing but its place; each use case writes down which places it has seen, and
in which slice, so that afterwards every effect of every guarantee can be held against what Kafka
acknowledged, and what is there twice or missing against the slices that were in flight.
"""

import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import diary
import pyarrow.parquet as pq
from confluent_kafka import Producer
from driver_process import DriverProcess, until
from matrix import note
from pyarrow.dataset import dataset
from sending import Stream
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from headrace.connectors.kafka import create_topics, producer_config
from headrace.model.lane_names import number_of
from headrace.store import open_store
from headrace.testing.in_flight import Made, slices_again, slices_never
from headrace.testing.kafka_topics import KafkaTopics
from headrace.testing.ledger import Found, Ledger, Place

#: a use case for each guarantee, whose rows `places` makes
OF_EACH_GUARANTEE = """
@use_case(topic=TOPIC, sink=SqlTable("transacts", columns=COLUMNS), guarantee="exactly-once")
def transacts(table, context):
    return places(table, context)

@use_case(topic=TOPIC, sink=ParquetFiles("intends"), guarantee="exactly-once")
def intends(table, context):
    return places(table, context)

@use_case(topic=TOPIC, sink=SqlTable("repeats", columns=COLUMNS), guarantee="at-least-once")
def repeats(table, context):
    return places(table, context)

@use_case(topic=TOPIC, sink=SqlTable("claims", columns=COLUMNS), guarantee="at-most-once")
def claims(table, context):
    return places(table, context)

"""
USE_CASES = (
    """
import uuid

import pyarrow as pa
from headrace import use_case
from headrace.sinks import KafkaTopic, ParquetFiles, SqlTable

TOPIC = "{{tenant}}.{name}"
NUMBERS = ("part", "record", "first", "until")
NAMES = ("tenant", "whose", "topic")
COLUMNS = {{**dict.fromkeys(NAMES, "text"), **dict.fromkeys(NUMBERS, "bigint")}}

def places(table, context):
    call = uuid.uuid4().hex
    write_down(call, "begin", context)
    (piece,) = context.slices
    rows = table.num_rows
    made = pa.table({{
        "tenant": pa.array([context.tenant] * rows, pa.string()),
        "whose": pa.array([piece.lane.tenant] * rows, pa.string()),
        "topic": pa.array([piece.topic] * rows, pa.string()),
        "part": table["partition"].cast(pa.int64()),
        "record": table["offset"].cast(pa.int64()),
        "first": pa.array([piece.from_offset] * rows, pa.int64()),
        "until": pa.array([piece.until_offset] * rows, pa.int64()),
    }})
    write_down(call, "end", context)
    return made
"""
    + OF_EACH_GUARANTEE
    + """OUT = KafkaTopic("{{tenant}}.{name}.out", transactional=True)

@use_case(topic=TOPIC, sink=OUT, guarantee="exactly-once")
def transfers(table, context):
    made = places(table, context).select(["tenant", "topic", "part", "record"])
    return pa.table({{"value": [" ".join(map(str, row.values())) for row in made.to_pylist()]}})
"""
)
#: workers ask Linux to end them with their daemon (`own_process.py`); this takes it back, so that a
#: task outlives what started it, as it may on other systems or beyond a network that is cut
OUTLIVES = """
import ctypes

write_line = write_down

def write_down(call, what, context):
    ctypes.CDLL(None).prctl(1, 0)
    write_line(call, what, context)
"""
NAMES = ("transacts", "intends", "repeats", "claims", "transfers")
#: of them those whose effects are in tables
TABLES = ("transacts", "repeats", "claims")
TENANTS = tuple(f"t{number}" for number in range(5))
PARTITIONS = 2
#: of each partition, and as many records without one
KEYS = 13
#: what tells the order of rows: in PostgreSQL each connection fills pages of its own, so not ctid
WHEN_MADE = {
    "sqlite": "rowid",
    "postgresql": "xmin::text::bigint, cmin::text::bigint, ctid",
}


def driver_url(url):
    """The URL as SQLAlchemy takes it."""
    return url.replace("postgresql://", "postgresql+psycopg://")


@dataclass
class Rig:
    """A service in a folder, and everything that was ever sent to it."""

    folder: Path
    bootstrap_servers: str
    database_url: str = ""
    name: str = field(default_factory=lambda: f"f{time.time_ns()}")
    ledger: Ledger = field(default_factory=Ledger)
    #: sections of the YAML file besides those that every rig has
    settings: dict = field(default_factory=dict)
    #: what drivers find in their environment
    environment: dict = field(default_factory=dict)
    #: use cases besides those that every rig has
    more: str = ""
    kills: int = 0
    #: every record has another number
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    #: which key a record has, by its place; 0: none
    keys: dict[Place, int] = field(default_factory=dict)
    #: topic, partition and value of what Kafka has acknowledged without saying where it is
    _somewhere: list[tuple[str, int, bytes]] = field(default_factory=list)

    def __post_init__(self):
        self.folder.mkdir(exist_ok=True)
        self.database_url = self.database_url or f"sqlite:///{self.folder}/store.db"
        self.config = {"bootstrap.servers": self.bootstrap_servers}
        code = (diary.WRITER + USE_CASES + self.more).format(name=self.name, folder=self.folder)
        (self.folder / "use_cases.py").write_text(code)
        settings = {
            "module": "use_cases.py",
            "kafka": self.config,
            "database_url": self.database_url,
            "warehouse": str(self.folder / "files"),
            "master": "local[2]",
            **self.settings,
        }
        (self.folder / "headrace.yaml").write_text(json.dumps(settings))
        create_topics(self.config, {self.topic(tenant): PARTITIONS for tenant in TENANTS})
        create_topics(self.config, {f"{self.topic(tenant)}.out": 1 for tenant in TENANTS})
        for tenant in TENANTS:
            self.ledger.topic(tenant, self.topic(tenant))
        self.headrace("use-cases", "deploy")
        for tenant in TENANTS:
            self.headrace("tenants", "add", tenant)

    def topic(self, tenant):
        return f"{tenant}.{self.name}"

    @property
    def lanes(self):
        """Of each tenant, as topic and partition."""
        return [(self.topic(tenant), at) for tenant in TENANTS for at in range(PARTITIONS)]

    def headrace(self, *words):
        done = subprocess.run(
            [sys.executable, "-m", "headrace", *words, "-c", "headrace.yaml"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, stop_at="", *options, environment=None):
        """A driver; with ``stop_at`` it stops for ever at that step."""
        return DriverProcess(self, stop_at, options, {**self.environment, **(environment or {})})

    def store(self):
        """The service's store, until the block ends."""
        return closing(open_store(self.database_url))

    # sending

    def send(self, records, config=None):
        """So many records to every partition; returns when Kafka has acknowledged them."""
        producer = Producer(producer_config(config or self.config))
        for _ in range(records):
            for topic, partition in self.lanes:
                self._send(producer, topic, partition)
        assert producer.flush(60) == 0

    def _send(self, producer, topic, partition):
        number = next(self._numbers)
        key = b"k%d" % (number % KEYS) if number % KEYS else None
        told = {"partition": partition, "on_delivery": self._delivered}
        producer.produce(topic, f"{number}".encode(), key, **told)
        producer.poll(0)

    def _delivered(self, error, message):
        if error is not None:
            return
        lane = message.topic(), message.partition()
        if message.offset() is None:  # its first acknowledgement was lost with the broker
            self._somewhere.append((*lane, message.value()))
        else:
            self._acknowledged(Place(*lane, message.offset()), message.value())

    def _acknowledged(self, place, value):
        self.ledger.acknowledged(place)
        self.keys[place] = int(value) % KEYS

    def _find_places(self):
        topics = KafkaTopics(self.bootstrap_servers)
        for topic in {topic for topic, *_ in self._somewhere}:
            for message in topics.messages(topic):
                if (topic, message.partition(), message.value()) in self._somewhere:
                    place = Place(topic, message.partition(), message.offset())
                    self._acknowledged(place, message.value())
        self._somewhere.clear()

    def sending(self, per_s=100.0):
        """Keep sending until the block ends."""
        return Stream(self, per_s)

    # judging

    @property
    def ends(self):
        """Where the positions have to come, by topic and partition."""
        found = {}
        for place in self.ledger.sent:
            lane = place[:2]
            found[lane] = max(found.get(lane, 0), place.offset + 1)
        return found

    def behind(self, names=NAMES):
        """Lanes that are not at their ends, or have buckets that are not."""
        with self.store() as store:
            positions = store.progress.load_positions()
            pending = len(store.progress.pending_intents())
        reached, ends = {}, self.ends
        for one in positions:
            lane = one.lane.use_case, self.topic(one.lane.tenant), number_of(one.lane.name)
            reached[lane] = min(one.next_offset, reached.get(lane, one.next_offset))
        late = [
            (use_case, *lane)
            for use_case in names
            for lane, end in ends.items()
            if reached.get((use_case, *lane), 0) < end
        ]
        return late or ([f"{pending} recorded waves"] if pending else [])

    def made(self, table):
        """Effects of a SQL sink in the order they were made: for whom, of whose slice, of what."""
        engine = create_engine(driver_url(self.database_url), poolclass=NullPool)
        made = WHEN_MADE[engine.dialect.name]
        wanted = "tenant, whose, topic, part, record, first, until"
        asked = f"SELECT {wanted} FROM {table} ORDER BY {made}"
        return [effect(row._mapping) for row in self._asked(engine, asked)]

    def count(self, table):
        """How many effects a SQL sink has."""
        engine = create_engine(driver_url(self.database_url), poolclass=NullPool)
        rows = self._asked(engine, f"SELECT count(*) FROM {table}")
        return rows[0][0] if rows else 0

    def _asked(self, engine, question):
        try:
            with engine.connect() as connection:
                return connection.execute(text(question)).all()
        except (OperationalError, ProgrammingError):
            return []  # the table is not there yet

    def files(self, name="intends"):
        """Effects of a file sink as a reader of its folder sees them, sorted by file names."""
        folder = self.folder / "files" / name
        paths = sorted(dataset(folder, format="parquet").files) if folder.is_dir() else []
        rows = [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]
        return [Found(tenant, done.place) for tenant, _, done in map(effect, rows)]

    def messages(self):
        """Effects of the Kafka sink as readers of committed messages see them."""
        topics = KafkaTopics(self.bootstrap_servers)
        found = []
        for tenant in TENANTS:
            for message in topics.messages(f"{self.topic(tenant)}.out"):
                of, topic, partition, offset = message.value().decode().split()
                found.append(Found(of, Place(topic, int(partition), int(offset))))
        return found

    def verdicts(self, made):
        """What became of everything, by use case; ``made`` has the effects of those in tables."""
        found = {
            name: [Found(tenant, done.place) for tenant, _, done in rows]
            for name, rows in made.items()
        }
        found |= {"intends": self.files(), "transfers": self.messages()}
        return {name: self.ledger.judge(found[name]) for name in NAMES}

    def parts(self, part_of):
        """Each place as one of a part of its partition, by its number; ``part_of`` says which."""
        found, counts = {}, Counter()
        for place in sorted(self.ledger.sent):
            lane = place.topic, place.partition * 100 + part_of(place)
            found[place] = Place(*lane, counts[lane])
            counts[lane] += 1
        return found

    def ledger_of(self, parts):
        """What was sent, by these."""
        ledger = Ledger()
        for tenant in TENANTS:
            ledger.topic(tenant, self.topic(tenant))
        for place in parts.values():
            ledger.acknowledged(place)
        return ledger

    def judged(self, found, order):
        """What became of all that was sent, by lanes or by the keys of their records."""
        if order == "lane":
            return self.ledger.judge(found)
        parts = self.parts(self.keys.__getitem__)
        return self.ledger_of(parts).judge([one._replace(place=parts[one.place]) for one in found])

    def progressing(self, driver=None, by=100, deadline_s=90.0):
        """Wait until so many more effects are there."""
        before = self.count("transacts")
        said = driver.tail if driver is not None else lambda: "no progress"
        until(lambda: self.count("transacts") >= before + by, said, deadline_s)

    def killed_and_away(self, name, count, down, up, down_s):
        """Drivers killed in writes of a use case, then its target away for a while, then the rest.

        For the arguments see ``killed_in_writes`` and ``away``.
        """
        self.killed_in_writes(name)
        with self.start() as driver:
            self.away(driver, count, down, up, down_s)
            driver.drain()

    def killed_in_writes(self, name):
        """Drivers killed in writes of a use case, one after the other."""
        for step in ("mid-write", "sink-written", "mid-commit"):
            with self.start(f"{step}@{name}:2") as driver:
                driver.until_stopped()
                driver.kill()

    def away(self, driver, count, down, up, down_s):
        """A use case's target away for a while, in which all others go on.

        Args:
            driver: who writes to it.
            count: how many rows it has.
            down: ends it.
            up: brings it back.
            down_s: seconds between these.
        """
        before = count()
        until(lambda: count() > before + 50, driver.tail)
        down()
        time.sleep(down_s)
        self.progressing(driver)
        up()
        back = count()
        until(lambda: count() > back + 50, driver.tail)

    def caught_up(self, names, deadline_s=300.0):
        """A last life of these use cases, until nothing is left to do; then it drains."""
        with self.start() as driver:
            until(
                lambda: not self.behind(names),
                lambda: (self.behind(names)[:5], driver.tail()),
                deadline_s,
            )
            driver.drain()

    def settle(self, deadline_s=120.0):
        """A last life, until nothing is left to do; then it drains."""
        self._find_places()
        self.caught_up(NAMES, deadline_s)

    def judge(self, row, *, late=()):
        """Hold every guarantee against the ledger; note the result of this row of the matrix.

        Args:
            row: its name.
            late: use cases of which a task that slept may have made an effect after younger ones.
        """
        made = {name: self.made(name) for name in TABLES}
        found = self.verdicts(made)
        note(row, found, faults=self.kills, records=len(self.ledger))
        for name, verdict in found.items():
            assert not verdict.foreign, (name, str(verdict))
            assert name in late or not verdict.out_of_order, (name, str(verdict))
            assert name == "claims" or not verdict.lost, (name, str(verdict))
            assert name == "repeats" or not verdict.twice, (name, str(verdict))
        self._judge_slices(made, found)
        return found

    def _judge_slices(self, made, found):
        """Chain, flight and isolation; and what a fault cost where it may cost something."""
        assert all(made.values()), "a use case has no effect at all"
        owners = {self.topic(tenant): tenant for tenant in TENANTS}
        effects = [(*whose, done.place) for rows in made.values() for *whose, done in rows]
        reports = [
            diary.chains(done for *_, done in made["transacts"]),
            diary.flights(self.folder / "diary"),
            diary.isolation(owners, effects),
        ]
        for report in reports:
            assert report.clean, str(report)
            assert report.checked, str(report)
        # At most the slice that was in flight, of each lane, once for each fault.
        repeated = [done for *_, done in made["repeats"]]
        largest = max(done.end - done.begin for done in repeated)
        again = slices_again(repeated)
        never = slices_never(found["claims"].lost, largest)
        for lane in {**again, **never}:
            assert again[lane] <= self.kills, (lane, again[lane], str(found["repeats"]))
            assert never[lane] <= self.kills, (lane, never[lane], str(found["claims"]))


def effect(row):
    """For whom it was made, whose slice it was, and of what."""
    place = Place(row["topic"], row["part"], row["record"])
    return row["tenant"], row["whose"], Made(place, row["first"], row["until"])
