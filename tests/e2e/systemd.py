"""A systemd of a test's own, for units as they are shipped.

A machine has one systemd, and a test has no business with it. But any user may have an instance of
his own, which reads the same units by the same rules. This one is root's, with a ``/run`` that
nobody else sees and a cgroup below the test's. What it can not show is the boot of a machine.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

import psutil

MANAGER = Path("/lib/systemd/systemd")
START_S = 20.0
#: /run is made new: systemd asks there whether the machine was booted by systemd, and refuses
#: to begin if it was not
BEGIN = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p -m 0700 /run/systemd/system "$XDG_RUNTIME_DIR"
echo $$ > "$1/cgroup.procs"
exec "$2" --user --log-target=console --log-level=info
"""


def cgroups():
    """Where systemd keeps its groups; the first one rules, others are for who knows no other."""
    kinds = [Path("/sys/fs/cgroup") / kind for kind in ("unified", "systemd")]
    return [kind for kind in kinds if kind.is_dir()] or [kinds[0].parent]


def missing():
    """What this machine has not got for it; empty if it has everything."""
    if os.geteuid() != 0:
        return "systemd of one's own takes root"
    wanted = ("unshare", "nsenter", "systemctl", MANAGER)
    if gone := [str(program) for program in wanted if shutil.which(program) is None]:
        return f"there is no {', '.join(gone)}"
    private = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return "" if private.returncode == 0 else "mount namespaces are not allowed here"


class Systemd:
    """Runs the units in ``units``; ends with everything that it started."""

    def __init__(self, folder):
        self.units = folder / "config" / "systemd" / "user"
        self.units.mkdir(parents=True)
        self.log = folder / "systemd.log"
        self._cgroups = [group / f"test-{os.getpid()}" for group in cgroups()]
        self._environment = {
            **os.environ,
            "XDG_RUNTIME_DIR": "/run/user/0",
            "XDG_CONFIG_HOME": str(folder / "config"),
            "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/user/0/bus",
        }
        self._process = None

    def __enter__(self):
        self._cgroups[0].mkdir()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", BEGIN, "sh", self._cgroups[0], MANAGER],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while self.ask("is-system-running", check=False) not in ("running", "degraded"):
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        return self

    def __exit__(self, *_):
        top = psutil.Process(self._process.pid)
        left = top.children(recursive=True)
        for process in [top, *left]:
            process.kill()
        self._process.wait(60)
        psutil.wait_procs(left, 10)
        for cgroup in self._cgroups:
            for folder, _, _ in os.walk(cgroup, topdown=False):
                Path(folder).rmdir()

    def ask(self, *words, check=True):
        """``systemctl``: what it said when it was done."""
        inside = ["nsenter", "--target", str(self._process.pid), "--mount"]
        done = subprocess.run(
            [*inside, "systemctl", "--user", "--no-pager", *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
            check=False,
        )
        said = done.stdout
        assert not check or done.returncode == 0, f"{said}\n{self.ask('status', check=False)}"
        return said.strip()

    def shows(self, unit, name):
        """The value of a property of a unit."""
        return self.ask("show", unit, "--property", name, "--value")
