"""A cluster of brokers that is restarted one by one, as an upgrade does."""

import pytest
from matrix import ROW
from rig import Rig
from three_brokers import ThreeBrokers

pytestmark = ROW


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_three_brokers_restarted_one_by_one_cost_time_alone(way, tmp_path):
    with ThreeBrokers(tmp_path / "kafka") as cluster:
        rig = Rig(tmp_path / "service", cluster.bootstrap_servers)
        with rig.sending(), rig.start() as driver:
            for broker in cluster.brokers:
                rig.progressing(driver)
                getattr(broker, way)()
                rig.kills += 1
                rig.progressing(driver)
                broker.start()
            rig.progressing(driver)
            driver.drain()
        rig.settle()
        rig.judge(f"three brokers restarted one by one ({'SIGTERM' if way == 'stop' else 'kill'})")
