"""The folder of an OpenSearch: jars under the names that it knows them by, and its settings.

OpenSearch grants rights to jars by their file names, and looks for what speaks HTTP in a folder of
modules, apart from its own jars. So the jars of the cache stand in such a folder once more, as
links where that can be.

Not for production: one copy, no password, no word about full disks.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from headrace.embedded.addresses import HOST

_MODULE: Final = "transport-netty4"
_DESCRIPTOR: Final = """description=Netty 4 based transport implementation
version={version}
name=transport-netty4
classname=org.opensearch.transport.Netty4Plugin
java.version=11
opensearch.version={version}
extended.plugins=
has.native.controller=false
"""
_POLICY: Final = """grant {
  permission java.net.SocketPermission "*", "accept,connect,listen,resolve";
  permission java.lang.RuntimePermission "getClassLoader";
  permission java.lang.RuntimePermission "setContextClassLoader";
  permission java.lang.RuntimePermission "accessUserInformation";
  permission java.lang.RuntimePermission "accessDeclaredMembers";
  permission java.lang.reflect.ReflectPermission "suppressAccessChecks";
  permission java.util.PropertyPermission "*", "read,write";
  permission java.io.FilePermission "/proc/sys/net/core/somaxconn", "read";
};
"""
LOG4J: Final = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %-5p %c{1.} %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""


def make_home(home: Path, class_path: Sequence[Path]) -> None:
    """Make the folder, if it is not of these jars already.

    Raises:
        OSError: it cannot be written.
    """
    parts = [_named(jar) for jar in class_path]
    made_of = "\n".join(sorted(name for _, name in parts))
    sign = home / "made-of"
    if sign.is_file() and sign.read_text("utf-8") == made_of:
        return
    shutil.rmtree(home, ignore_errors=True)
    module = home / "modules" / _MODULE
    for name in ("bin", "config", "extensions", "lib", "plugins", f"modules/{_MODULE}"):
        (home / name).mkdir(parents=True)
    for jar, (group, name) in zip(class_path, parts, strict=True):
        of_module = group == "io.netty" or name.startswith(_MODULE)
        _link(jar, (module if of_module else home / "lib") / name)
    version = next(name for group, name in parts if name.startswith("opensearch-2"))
    version = version.removeprefix("opensearch-").removesuffix(".jar")
    (module / "plugin-descriptor.properties").write_text(_DESCRIPTOR.format(version=version))
    (module / "plugin-security.policy").write_text(_POLICY)
    sign.write_text(made_of, "utf-8")
    for path in (home, *home.rglob("*")):
        # Whoever runs root's node is somebody else. A jar may be the cache's own.
        if path.suffix != ".jar":
            path.chmod(0o755 if path.is_dir() else 0o644)


def settings_text(folder: Path, port: int, inner: int, more: Mapping[str, Any]) -> str:
    """``opensearch.yml``, in which each line is a setting; JSON is YAML too."""
    chosen = {
        "cluster.name": "headrace",
        "node.name": "headrace",
        "discovery.type": "single-node",
        "network.host": HOST,
        "http.port": port,
        "transport.port": inner,
        "path.data": str(folder / "data"),
        "path.logs": str(folder / "tmp"),
        "cluster.routing.allocation.disk.threshold_enabled": False,
        "action.auto_create_index": False,
        **more,
    }
    return "".join(f"{name}: {json.dumps(value)}\n" for name, value in chosen.items())


def _named(jar: Path) -> tuple[str, str]:
    group, artifact, version = jar.name.removesuffix(".jar").split("__")
    return group, f"{artifact}-{version}.jar"


def _link(jar: Path, name: Path) -> None:
    if jar.stat().st_mode & stat.S_IROTH:
        # It fails where it is of another disk, or of somebody else.
        with suppress(OSError):
            os.link(jar, name)
            return
    shutil.copyfile(jar, name)
    name.chmod(0o644)
