"""Streams of Kinesis while all that reads them is killed, and they are split and merged meanwhile.

What plays Kinesis is kinesis-mock. It refuses nobody who reads too much, so what refuses is between
it and the drivers.
"""

import random
import time

import pytest
from kinesis_rig import NAMES, KinesisRig
from matrix import FULL, ROW, SEEDS

from headrace.embedded.addresses import free_ports
from kinesis_server import KinesisServer, needed
from s3_relay import Relay

pytestmark = ROW
STEPS = ("intent-recorded", "mid-slice", "mid-write", "sink-written", "mid-commit", "committed")
SPENT = 400, b'{"__type": "ProvisionedThroughputExceededException", "message": "Rate exceeded"}'
DOWN_S = 60.0 if FULL else 10.0
#: it writes what it has to disk each second
ON_DISK_S = 2.5


@pytest.fixture
def server(tmp_path):
    """A Kinesis of the test's own, which comes back with what it has."""
    needed()
    with KinesisServer(tmp_path / "kinesis", free_ports(1)[0], durable=True) as made:
        yield made


@pytest.fixture
def rig(server, kafka, tmp_path):
    return KinesisRig(tmp_path / "service", kafka.bootstrap_servers, server, server.embedded.port)


def test_drivers_killed_at_each_step_while_shards_split_and_merge(rig):
    steps = [*STEPS, *(f"mid-slice@{name}" for name in NAMES)] if FULL else STEPS[1::2]
    with rig.putting():
        for step in steps:
            with rig.start(f"{step}:3") as driver:
                driver.until_stopped()
                rig.reshard()
                driver.kill()
    rig.settle()
    rig.judge("Kinesis: drivers killed at each step, shards split and merged in the middle")


def test_workers_killed_in_the_middle_of_slices_while_shards_split_and_merge(rig):
    steps = ("claimed", "mid-slice", "mid-write", "sink-written") if FULL else ("mid-slice",)
    for step in steps:
        with rig.putting(), rig.start(f"{step}:3") as driver:
            for worker in driver.stops(1 + SEEDS):
                rig.reshard()
                worker.kill()
                rig.kills += 1
                rig.progressing(driver)
            driver.drain()
    rig.settle()
    rig.judge("Kinesis: Python workers killed, shards split and merged in the middle")


def test_the_service_killed_and_back_with_what_it_had(rig, server):
    with rig.start() as driver:
        for _ in range(3 if FULL else 1):
            with rig.putting():
                rig.progressing(driver)
                rig.reshard()
            # Of what came in the last second it knows nothing after a kill.
            time.sleep(ON_DISK_S)
            server.embedded.kill()
            rig.kills += 1
            time.sleep(DOWN_S)
            server.embedded.start()
            rig.reshard()
            with rig.putting():
                rig.progressing(driver)
        driver.drain()
    rig.settle()
    rig.judge("Kinesis: the service killed, shards split and merged before and after")


def test_all_that_is_asked_refused_and_then_some_of_it(server, kafka, tmp_path):
    chance = random.Random(1)
    with Relay(server.embedded.port) as relay:
        rig = KinesisRig(tmp_path / "service", kafka.bootstrap_servers, server, relay.port)
        with rig.putting(), rig.start() as driver:
            rig.progressing(driver)
            relay.always = SPENT
            time.sleep(DOWN_S / 2)
            rig.reshard()
            time.sleep(DOWN_S / 2)
            relay.always = None
            rig.kills += 1
            rig.progressing(driver)
            relay.fates.extend(chance.choices([None, SPENT], k=2_000 if FULL else 300))
            while relay.fates:
                rig.reshard()
                rig.progressing(driver)
            rig.kills += 1
            driver.drain()
        rig.settle()
        rig.judge("Kinesis: all requests throttled, then half of them, shards split and merged")
