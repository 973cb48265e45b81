"""The configuration of a one-machine Cassandra.

Its defaults are for a cluster of big machines: hundreds of threads, a quarter of the memory for
each of several caches, minutes of patience for nodes that are not there. Here one node is all there
is. What decides what a client is told, such as how large a row may be, is left as it is.

Not for production: one copy, no password.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from headrace.embedded.addresses import HOST

DATACENTER: Final = "datacenter1"
_FIXED: Final[Mapping[str, Any]] = {
    "cluster_name": "headrace",
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    "num_tokens": 1,
    "auto_bootstrap": False,
    "listen_address": HOST,
    "rpc_address": HOST,
    "seed_provider": [
        {
            "class_name": "org.apache.cassandra.locator.SimpleSeedProvider",
            "parameters": [{"seeds": HOST}],
        }
    ],
    "auto_snapshot": False,
    "hinted_handoff_enabled": False,
    # little memory
    "memtable_heap_space": "64MiB",
    "memtable_offheap_space": "64MiB",
    "key_cache_size": "4MiB",
    "counter_cache_size": "0MiB",
    "file_cache_size": "32MiB",
    "networking_cache_size": "16MiB",
    "concurrent_reads": 8,
    "concurrent_writes": 16,
    "concurrent_counter_writes": 2,
    "concurrent_compactors": 1,
    "native_transport_max_threads": 16,
    "commitlog_total_space": "256MiB",
}
#: a node that is killed has what it answered to, as no replica would have it
_DURABLE: Final = {"commitlog_sync": "batch"}
_PERIODIC: Final = {"commitlog_sync": "periodic", "commitlog_sync_period": "10000ms"}
LOGBACK: Final = """<configuration>
  <appender name="STDOUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date %-5level %logger{0} %msg%n%ex{short}</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="STDOUT"/></root>
</configuration>
"""
#: what it needs of Java's own, as its `jvm17-server.options` have it
_EXPORTS: Final = (
    "java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch "
    "java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry "
    "java.rmi/sun.rmi.server java.sql/java.sql java.base/java.lang.ref jdk.unsupported/sun.misc"
)
_OPENS: Final = (
    "java.base/java.lang.module java.base/jdk.internal.loader java.base/jdk.internal.ref "
    "java.base/jdk.internal.reflect java.base/jdk.internal.math java.base/jdk.internal.module "
    "java.base/jdk.internal.util.jar jdk.management/com.sun.management.internal "
    "java.base/sun.nio.ch java.base/java.io java.base/java.lang java.base/java.lang.reflect "
    "java.base/java.nio java.base/java.util java.base/java.util.concurrent "
    "java.base/java.util.concurrent.atomic"
)


def as_yaml(port: int, storage_port: int, *, durable: bool, more: Mapping[str, Any]) -> str:
    """The whole of ``cassandra.yaml``; ``more`` overrides what is chosen here."""
    ports = {"native_transport_port": port, "storage_port": storage_port}
    return yaml.safe_dump({**_FIXED, **ports, **(_DURABLE if durable else _PERIODIC), **more})


def java_options(folder: Path, heap_mb: int, agent: Path) -> list[str]:
    """What Java is told, but for the class path.

    Args:
        folder: of the server.
        heap_mb: Java heap.
        agent: the jar that tells it how large its objects are.
    """
    opened = [f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS.split()]
    opened += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS.split()]
    return [
        f"-Xms{min(heap_mb, 128)}m",
        f"-Xmx{heap_mb}m",
        "-XX:MaxDirectMemorySize=192m",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-Xss512k",
        f"-javaagent:{agent}",
        *opened,
        "-Djdk.attach.allowAttachSelf=true",
        "-Djava.awt.headless=true",
        f"-Dcassandra.config={(folder / 'cassandra.yaml').as_uri()}",
        f"-Dcassandra.storagedir={folder / 'data'}",
        f"-Dlogback.configurationFile={folder / 'logback.xml'}",
        "-Dcassandra.native.epoll.enabled=false",
        # there is nobody else to wait for
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.ring_delay_ms=100",
    ]
