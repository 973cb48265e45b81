"""A supervisor of fake drivers: ``fleet_app.py FOLDER DRIVERS [HEALTH_PORT]``."""

import os
import sys
from pathlib import Path

from headrace.cli.console import configure_logs
from headrace.fleet.states import RestartRules
from headrace.fleet.supervise import Wanted, supervise

folder = Path(sys.argv[1])
fake = Path(__file__).with_name("fake_driver.py")
configure_logs()
clean = supervise(
    Wanted(
        "fake",
        int(sys.argv[2]),
        lambda name, port: [sys.executable, "-I", "-S", str(fake), str(folder), name, str(port)],
        folder / "state",
        RestartRules(
            first_wait_s=0.1,
            longest_wait_s=0.4,
            most_failures=4,
            window_s=60,
            drain_s=float(os.environ.get("DRAIN_S", "2")),
        ),
        health_port=int(sys.argv[3]) if len(sys.argv) > 3 else 0,
    )
)
sys.exit(0 if clean else 1)
