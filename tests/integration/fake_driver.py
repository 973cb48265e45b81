"""What a supervisor sees of a driver, without Spark: ``fake_driver.py FOLDER NAME PORT``.

It writes what happens to it into FOLDER/journal, and behaves as FOLDER/NAME.mode says when it
starts: "ok", "die", "deaf" (to SIGTERM), "mute" (no health), "never ready", "no store" (says so),
"hang" (says that its loop does not turn), "config". Its child in a process group of its own stands
for Spark's workers.
"""

import faulthandler
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder, name, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def note(what):
    with (folder / "journal").open("a") as journal:
        journal.write(f"{what} {name} {os.getpid()}\n")


def mode():
    path = folder / f"{name}.mode"
    return path.read_text().strip() if path.exists() else "ok"


def on_term(*_):
    if mode() == "deaf":
        return
    note("drained")
    os._exit(0)


class Health(BaseHTTPRequestHandler):
    def do_GET(self):
        unready = mode() in {"never ready", "no store"}
        good = mode() != "hang" and (self.path == "/livez" or not unready)
        self.send_response(200 if good else 503)
        self.end_headers()
        if mode() == "no store":
            self.wfile.write(b'{"missing": [{"what": "store", "since_s": 5}]}')

    def log_message(self, *_):
        pass


signal.signal(signal.SIGTERM, on_term)
faulthandler.register(signal.SIGUSR1)
worker = subprocess.Popen(["sleep", "600"], process_group=0)
note("started")
(folder / f"{name}.worker").write_text(str(worker.pid))
if mode() in {"die", "config"}:
    sys.stdout.write(f"{name} has no wheels\n")
    sys.stdout.flush()
    sys.exit(2 if mode() == "config" else 1)
if mode() == "mute":
    time.sleep(600)
ThreadingHTTPServer(("127.0.0.1", port), Health).serve_forever()
