"""A log that is cut by an unclean election: told by exact offsets, and nobody else's matter.

Acme's topic has two copies. One broker of them is killed, records are acknowledged by the other one
alone and are handled; then that one is killed, and the first comes back and leads without them: the
log ends before what was read. Use cases that skip go on at the new end; those that fail stand until
a person has sought them. The other tenants lose no record, and have none out of order.
"""

from contextlib import closing

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from driver_process import until
from matrix import ROW
from rig import NAMES, Rig
from three_brokers import ThreeBrokers

from headrace.connectors.kafka import KafkaLog, create_topics, producer_config
from headrace.model.lane_names import named
from headrace.model.records import FailureState
from headrace.model.streams import LaneId, State, StreamId
from headrace.testing.kafka_topics import KafkaTopics

pytestmark = ROW
SKIP, FAIL = ("transacts", "intends", "transfers"), ("repeats", "claims")
#: where the cut partition's copies part, how far the one went that is lost, and the new records
COPIED, READ, NEW = 40, 70, 10
#: the brokers that have acme's partitions, by node id: the first of them is cut, the other is not
COPIES = [[1, 2], [3, 2]]


class CutRig(Rig):
    """A service with one more tenant, acme, that is left out of the ledger."""

    def made(self, table):
        return [row for row in super().made(table) if row[0] != "acme"]

    def files(self):
        return [file for file in super().files() if file.tenant != "acme"]

    def add_acme(self):
        self.acme = self.topic("acme")
        config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        topic = NewTopic(self.acme, len(COPIES), replica_assignment=COPIES, config=config)
        admin = AdminClient(self.config)
        admin.create_topics([topic])[self.acme].result(60)
        create_topics(self.config, {f"{self.acme}.out": 1})
        self.headrace("tenants", "add", "acme")

    def send_acme(self, records, partitions=(0, 1)):
        producer, refused = Producer(producer_config(self.config)), []
        for number in range(records):
            for partition in partitions:
                producer.produce(
                    self.acme,
                    f"{number}".encode(),
                    partition=partition,
                    on_delivery=lambda error, _: refused.append(error) if error else None,
                )
        assert producer.flush(120) == 0
        assert not refused

    def reached(self, use_cases, *positions):
        """Wait until these have done acme's partitions so far."""

        def are():
            with self.store() as store:
                found = store.progress.load_positions(
                    [StreamId(name, "acme") for name in use_cases]
                )
            return sorted((position.lane.use_case, position.next_offset) for position in found)

        wanted = sorted((name, position) for name in use_cases for position in positions)
        until(lambda: are() == wanted, are)

    def end_of_acme(self):
        with closing(KafkaLog(self.config)) as log:
            return log.end_offsets([named(self.acme, 0)])

    def streams(self):
        with self.store() as store:
            return {stream.id: stream for stream in store.registry.streams()}

    def failures(self):
        """Streams that have any, with the offsets and what became of them."""
        with self.store() as store:
            return {
                (
                    failure.slice.lane,
                    failure.slice.from_offset,
                    failure.slice.until_offset,
                    failure.state,
                )
                for failure in store.failures.every()
            }

    def offsets(self, use_case):
        """Effects of acme's cut partition in the order they were made."""
        if use_case == "transfers":
            messages = KafkaTopics(self.bootstrap_servers).messages(f"{self.acme}.out")
            told = [message.value().decode().split() for message in messages]
            return [int(offset) for _, _, partition, offset in told if partition == "0"]
        if use_case == "intends":
            places = [file.place for file in super().files() if file.tenant == "acme"]
        else:
            places = [effect.place for name, _, effect in super().made(use_case) if name == "acme"]
        return [place.offset for place in places if place.partition == 0]


def cut(rig, first, second):
    """Let the log of acme's first partition end before what was read."""
    rig.send_acme(COPIED)
    second.kill()
    rig.kills += 1
    rig.send_acme(READ - COPIED, [0])
    rig.reached(NAMES, COPIED, READ)
    first.kill()
    rig.kills += 1
    second.start()
    until(lambda: list(rig.end_of_acme().values()) == [COPIED], rig.end_of_acme)


def is_told(rig, driver):
    """Wait until each stream of acme tells what it lost, and see that no other does."""
    lost = {
        (LaneId(name, "acme", "acme.visits[0]"), COPIED, READ, FailureState.SKIPPED)
        for name in SKIP
    }
    until(lambda: rig.failures() == lost, lambda: (rig.failures(), driver.tail()))
    reason = (
        f"OffsetOutOfRange: {rig.acme}[0] ends at {COPIED}, but all before {READ} was read: "
        f"the log was cut; seek the stream to {COPIED} or earlier, then resume it"
    )
    stopped = {StreamId(name, "acme"): reason for name in FAIL}

    def suspended():
        return {
            stream.id: stream.reason
            for stream in rig.streams().values()
            if stream.state is not State.ACTIVE or stream.reason
        }

    until(lambda: suspended() == stopped, lambda: (suspended(), driver.tail()))


def test_a_log_that_is_cut_is_told_by_its_offsets_and_stops_nobody_else(tmp_path):
    settings = {"use_cases": {name: {"data_loss": "skip"} for name in SKIP}}
    with ThreeBrokers(tmp_path / "kafka") as cluster:
        first, second, _ = cluster.brokers
        rig = CutRig(tmp_path / "service", cluster.bootstrap_servers, settings=settings)
        rig.add_acme()
        with rig.sending(50.0), rig.start() as driver:
            cut(rig, first, second)
            is_told(rig, driver)
            rig.progressing(driver)
            rig.send_acme(NEW)
            rig.reached(SKIP, COPIED + NEW, COPIED + NEW)
            rig.reached(FAIL, READ, COPIED)
            for name in FAIL:
                where = f'{{"{rig.acme}":{{"0":{COPIED}}}}}'
                rig.headrace("streams", "seek", "acme", name, "--to", where, "--yes")
                rig.headrace("streams", "resume", "acme", name)
            rig.reached(FAIL, COPIED + NEW, COPIED + NEW)
            first.start()
            rig.progressing(driver)
            driver.drain()
        rig.settle()
        expected = [*range(READ), *range(COPIED, COPIED + NEW)]
        assert rig.offsets("transacts") == rig.offsets("transfers") == expected
        # A slice of new records may replace the file of a slice of the same offsets.
        assert set(rig.offsets("intends")) == set(range(READ))
        for name in FAIL:
            assert rig.offsets(name)[-NEW:] == expected[-NEW:]
        rig.judge("log cut by an unclean election, of one tenant of three brokers")
