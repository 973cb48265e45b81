"""Records that are sent to a rig all the time, while what it runs is killed."""

import itertools
import threading

from confluent_kafka import Producer

from headrace.connectors.kafka import producer_config


class Stream:
    """Sends from a thread, at a steady rate."""

    def __init__(self, rig, per_s):
        self.rig, self.per_s = rig, per_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the producer does not come to its end"

    def _run(self):
        producer = Producer({**producer_config(self.rig.config), "message.timeout.ms": "300000"})
        lanes = self.rig.lanes
        for lane in itertools.cycle(lanes):
            if self._over.wait(1.0 / self.per_s):
                break
            self.rig._send(producer, *lane)
        producer.flush(60)
