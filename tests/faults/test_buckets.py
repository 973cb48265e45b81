"""Partitions divided by keys: drivers killed in slices of buckets, and each heir divides otherwise.

Afterwards the records of each key have their effects in order, as each guarantee has it, whatever
bucket of which division they were in.
"""

from collections import Counter

import pytest
from matrix import FULL, ROW, note
from rig import NAMES, Rig

from headrace.model.buckets import whole_lane
from headrace.model.lane_names import number_of
from headrace.testing.in_flight import Made, slices_again, slices_never
from headrace.testing.ledger import Found, Ledger, Place

pytestmark = ROW
PER_S = 50.0
KEYS = 13
#: what each use case is called in the rig's own five
GUARANTEES = {
    "by_key_once": "transacts",
    "by_key_files": "intends",
    "by_key_again": "repeats",
    "by_key_claims": "claims",
}
KEYED = """
BY_KEY = dict(topic=TOPIC, order="key", buckets=4)

@use_case(sink=SqlTable("by_key_once", columns=COLUMNS), guarantee="exactly-once", **BY_KEY)
def by_key_once(table, context):
    return places(table, context)

@use_case(sink=ParquetFiles("by_key_files"), guarantee="exactly-once", **BY_KEY)
def by_key_files(table, context):
    return places(table, context)

@use_case(sink=SqlTable("by_key_again", columns=COLUMNS), guarantee="at-least-once", **BY_KEY)
def by_key_again(table, context):
    return places(table, context)

@use_case(sink=SqlTable("by_key_claims", columns=COLUMNS), guarantee="at-most-once", **BY_KEY)
def by_key_claims(table, context):
    return places(table, context)
"""
#: where a driver is killed, and what it finds its use cases deployed with
LIVES = (
    ("mid-commit@by-key-once:3", 'order="key", buckets=4'),
    ("sink-written@by-key-again:2", 'order="key", buckets=7'),
    ("mid-slice@by-key-files:2", 'order="lane"'),
    ("claimed@by-key-claims:2", 'order="key", buckets=3'),
    ("mid-commit@by-key-files:2", 'order="key", buckets=8'),
)


class KeyedRig(Rig):
    """A rig whose records have keys, and some none."""

    def __post_init__(self):
        self.keys = {}
        super().__post_init__()

    def _send(self, producer, topic, partition):
        number = next(self._numbers)
        key = b"k%d" % (number % KEYS) if number % KEYS else None
        told = {"partition": partition, "on_delivery": self._delivered}
        producer.produce(topic, f"{number}".encode(), key, **told)
        producer.poll(0)

    def _delivered(self, error, message):
        super()._delivered(error, message)
        place = Place(message.topic(), message.partition(), message.offset())
        self.keys[place] = int(message.value()) % KEYS

    def deploy(self, order):
        path = self.folder / "use_cases.py"
        lines = path.read_text().splitlines()
        at = next(row for row, line in enumerate(lines) if line.startswith("BY_KEY = "))
        lines[at] = f"BY_KEY = dict(topic=TOPIC, {order})"
        path.write_text("\n".join(lines))
        self.headrace("use-cases", "deploy")

    def behind(self, names=NAMES):
        """The same, and what waits of partitions that are divided."""
        return [*super().behind(names), *self._waiting()]

    def _waiting(self):
        """Partitions of which some bucket is not at the end."""
        with self.store() as store:
            positions = store.progress.load_positions()
            pending = len(store.progress.pending_intents())
        reached, ends = {}, self.ends
        for one in positions:
            lane = one.lane.use_case, self.topic(one.lane.tenant), number_of(one.lane.name)
            reached[lane] = min(one.next_offset, reached.get(lane, one.next_offset))
        late = [
            (name, *lane)
            for name in GUARANTEES
            for lane, end in ends.items()
            if reached.get((name.replace("_", "-"), *lane), 0) < end
        ]
        return late or ([f"{pending} recorded waves"] if pending else [])

    def by_key(self):
        """Each place as one in what has an order: the records of a key in a partition, numbered."""
        found, counts = {}, Counter()
        for place in sorted(self.ledger.sent):
            lane = place.topic, place.partition * 100 + self.keys[place]
            found[place] = Place(*lane, counts[lane])
            counts[lane] += 1
        return found

    def judge_keys(self, row):
        """Hold what was done by key against what was sent."""
        ledger, of_key = Ledger(), self.by_key()
        for tenant in {place.topic.partition(".")[0] for place in self.ledger.sent}:
            ledger.topic(tenant, self.topic(tenant))
        for place in self.ledger.sent:
            ledger.acknowledged(of_key[place])
        effects = {name: self.made(name) for name in GUARANTEES if name != "by_key_files"}
        made = {
            name: [(who, Made(of_key[done.place], done.begin, done.end)) for who, _, done in of]
            for name, of in effects.items()
        }
        found = {name: [Found(who, one.place) for who, one in of] for name, of in made.items()}
        files = [found._replace(place=of_key[found.place]) for found in self.files("by_key_files")]
        verdicts = {name: ledger.judge(of) for name, of in found.items()}
        verdicts["by_key_files"] = ledger.judge(files)
        told = {GUARANTEES[name]: verdict for name, verdict in verdicts.items()}
        note(row, told, faults=self.kills, records=len(ledger))
        for name, verdict in verdicts.items():
            assert not verdict.foreign, (name, str(verdict))
            assert name == "by_key_files" or not verdict.out_of_order, (name, str(verdict))
            assert name == "by_key_claims" or not verdict.lost, (name, str(verdict))
            assert name == "by_key_again" or not verdict.twice, (name, str(verdict))
        again = slices_again(one for _, one in made["by_key_again"])
        # Of so many records of a partition as there are keys one has each.
        largest = -(-max(one.end - one.begin for _, one in made["by_key_claims"]) // KEYS)
        never = slices_never(verdicts["by_key_claims"].lost, largest)
        for lane, times in (again | never).items():
            assert times <= self.kills, (lane, times)


@pytest.mark.parametrize("turn", range(3 if FULL else 1))
def test_keys_are_in_order_whoever_is_killed_and_however_partitions_are_divided(
    kafka, tmp_path, turn
):
    rig = KeyedRig(tmp_path / "service", kafka.bootstrap_servers, more=KEYED)
    with rig.sending(PER_S):
        for step, order in LIVES if FULL else (*LIVES[:1], *LIVES[-1:]):
            rig.deploy(order)
            with rig.start(step) as driver:
                driver.until_stopped()
                driver.kill()
        with rig.start() as driver:
            rig.progressing(driver)
            driver.drain()
    rig.settle(300.0)
    rig.judge(f"killed in slices of buckets, and divided otherwise by the heir ({turn + 1})")
    rig.judge_keys(f"killed in slices of buckets, and divided otherwise ({turn + 1}): by key")
    with rig.store() as store:
        kept = Counter(whole_lane(one.lane.name) for one in store.progress.load_positions())
    assert max(kept.values()) >= 8
