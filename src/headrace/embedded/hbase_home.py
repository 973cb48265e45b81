"""The folder of an HBase: its settings, and what its two programs are told.

Its defaults are for a cluster on HDFS with pages of its own. Here one process is master, region
server and ZooKeeper, and writes to plain files. What decides what a client is told, such as how
large a cell may be, is left as it is.

Not for production: one copy of everything, and nobody is asked who he is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from headrace.embedded.addresses import HOST

_FIXED: Final[Mapping[str, str]] = {
    "hbase.cluster.distributed": "false",
    "hbase.zookeeper.quorum": HOST,
    "hbase.zookeeper.property.clientPortAddress": HOST,
    "hbase.master.ipc.address": HOST,
    "hbase.regionserver.ipc.address": HOST,
    "hbase.master.hostname": "localhost",
    "hbase.unsafe.regionserver.hostname": "localhost",
    "hbase.regionserver.thrift.ipaddress": HOST,
    # no pages
    "hbase.master.info.port": "-1",
    "hbase.regionserver.info.port": "-1",
    "hbase.thrift.info.port": "-1",
    # Files as they are: those with checksums beside them lose in a kill what was answered.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "hbase.unsafe.stream.capability.enforce": "false",
    "hbase.wal.provider": "filesystem",
    # one machine, and nobody to wait for
    "hbase.regionserver.handler.count": "8",
    "hbase.master.wait.on.regionservers.mintostart": "1",
    "hbase.master.wait.on.regionservers.timeout": "500",
    "hbase.master.wait.on.regionservers.interval": "100",
    # The Thrift server says sooner that it does not get through, than after minutes.
    "hbase.client.retries.number": "4",
}
_LOG4J: Final = """log4j.rootLogger=WARN,out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %c{1} %m%n
"""
#: what it needs of Java's own, as its start scripts have it
_OPENS: Final = (
    "java.base/java.nio java.base/sun.nio.ch java.base/java.lang java.base/jdk.internal.ref "
    "java.base/java.lang.reflect java.base/java.util java.base/java.util.concurrent"
)
_EXPORTS: Final = (
    "java.base/jdk.internal.misc java.security.jgss/sun.security.krb5 java.base/sun.net.dns "
    "java.base/sun.net.util"
)


class Ports(NamedTuple):
    """Where it listens."""

    thrift: int
    zookeeper: int
    master: int
    regions: int


def make_home(folder: Path, ports: Ports, more: Mapping[str, str]) -> None:
    """Write what an HBase starts from; data that is there stays.

    Args:
        folder: of the server.
        ports: where it listens.
        more: settings, over the ones chosen here.

    Raises:
        OSError: the folder cannot be written.
    """
    settings = {
        **_FIXED,
        "hbase.rootdir": (folder / "data").as_uri(),
        "hbase.tmp.dir": str(folder / "tmp"),
        "hbase.zookeeper.property.dataDir": str(folder / "zookeeper"),
        "hbase.zookeeper.property.clientPort": str(ports.zookeeper),
        "hbase.master.port": str(ports.master),
        "hbase.regionserver.port": str(ports.regions),
        "hbase.regionserver.thrift.port": str(ports.thrift),
        **more,
    }
    lines = [
        f"<property><name>{name}</name><value>{escape(value)}</value></property>"
        for name, value in settings.items()
    ]
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    (conf / "hbase-site.xml").write_text(
        "<configuration>\n" + "\n".join(lines) + "\n</configuration>\n", "utf-8"
    )
    (conf / "log4j.properties").write_text(_LOG4J, "utf-8")


def java_options(heap_mb: int) -> list[str]:
    """What Java is told, but for the class path."""
    return [
        "-Xms32m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-Dorg.apache.hbase.thirdparty.io.netty.tryReflectionSetAccessible=true",
        "-Djava.awt.headless=true",
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENS.split()),
        *(f"--add-exports={package}=ALL-UNNAMED" for package in _EXPORTS.split()),
    ]
