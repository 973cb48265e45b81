"""A disk that is full, and one that does not flush: the driver waits, says so, and goes on."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from matrix import note

from headrace.testing.ledger import Found, Ledger, Place
from own_disk import may

APP = Path(__file__).with_name("disk_app.py")
pytestmark = [pytest.mark.slow]
RECORDS, TENANTS = 300, ("acme", "bolt", "corp")


def seen(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def judge(row, told):
    ledger = Ledger()
    for tenant in TENANTS:
        ledger.topic(tenant, f"{tenant}.visits")
        for offset in range(RECORDS):
            ledger.acknowledged(Place(f"{tenant}.visits", 0, offset))
    found = [Found(tenant, Place(f"{tenant}.visits", 0, record)) for tenant, record in told["rows"]]
    verdict = ledger.judge(found)
    note(row, {"transacts": verdict}, faults=1, records=len(ledger))
    assert verdict.clean, str(verdict)
    assert told["positions"] == [[tenant, RECORDS] for tenant in TENANTS]


def test_a_full_disk_is_waited_for_and_nothing_is_lost(tmp_path):
    mount = f'mount -t tmpfs -o size=16m none "{tmp_path}"'
    if not may("unshare", "-rm", "sh", "-c", mount):
        pytest.skip("no disk of one's own may be mounted here")
    script = f'{mount} && exec "{sys.executable}" "{APP}" "{tmp_path}" full'
    told = seen("unshare", "-rm", "sh", "-c", script)
    assert any("the disk is full; free some space" in trouble for trouble in told["trouble"])
    judge("store's disk full", told)


def test_a_disk_that_does_not_flush_is_waited_for_and_nothing_is_lost(tmp_path):
    if shutil.which("strace") is None or not may("strace", "-o", "/dev/null", "true"):
        pytest.skip("no system call can be made to fail here")
    broken = "inject=fsync,fdatasync:error=EIO:when=60..80"
    command = ("strace", "-f", "-o", str(tmp_path / "trace"), "-e", "trace=fsync,fdatasync")
    told = seen(*command, "-e", broken, sys.executable, str(APP), str(tmp_path), "flaky")
    assert "EIO" in (tmp_path / "trace").read_text()
    assert any("the disk failed to read or write" in trouble for trouble in told["trouble"])
    judge("store's disk does not flush", told)
