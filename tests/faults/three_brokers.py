"""Three real brokers that keep three copies of everything."""

from concurrent.futures import ThreadPoolExecutor

from headrace.embedded import EmbeddedKafka
from headrace.embedded.addresses import HOST, free_ports
from headrace.embedded.kafka_broker import new_cluster_id

COPIES = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.leader.rebalance.enable": "true",
}


class ThreeBrokers:
    """Use it as a context manager."""

    def __init__(self, folder):
        ports, controllers = free_ports(3), free_ports(3)
        voters = ",".join(f"{n}@{HOST}:{port}" for n, port in enumerate(controllers, start=1))
        cluster_id = new_cluster_id()
        self.bootstrap_servers = ",".join(f"{HOST}:{port}" for port in ports)
        self.brokers = [
            EmbeddedKafka(
                folder / str(number),
                port,
                quick_start=True,
                properties={
                    **COPIES,
                    "node.id": str(number),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
                },
                cluster_id=cluster_id,
            )
            for number, (port, controller) in enumerate(
                zip(ports, controllers, strict=True), start=1
            )
        ]

    def __enter__(self):
        # One alone has no majority, and waits for another.
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(EmbeddedKafka.start, self.brokers))
        return self

    def __exit__(self, *_):
        # Nor can the last ones be let go by a majority that is not there any more.
        for broker in self.brokers:
            broker.kill()
