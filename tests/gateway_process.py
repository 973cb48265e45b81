"""A gateway as an operator starts it: a process, a YAML file, a store with keys."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from headrace.doors.keys import new_key
from headrace.embedded.addresses import free_ports
from headrace.model.credentials import Role
from headrace.model.streams import Tenant
from headrace.store import open_store

SECRET = "s" * 40
SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
#: what a process may take to start or to end
PATIENCE_S = 60.0


@dataclass
class GatewayProcess:
    """``headrace gateway`` in a folder, for topics whose names end with ``mark``."""

    folder: Path
    bootstrap_servers: str
    mark: str
    tenants: tuple[str, ...] = ("acme", "bolt")
    #: of the section ``gateway``
    settings: dict = field(default_factory=dict)
    #: of the section ``kafka``
    kafka: dict = field(default_factory=dict)

    def __post_init__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        url = f"sqlite:///{self.folder}/store.db"
        types = {
            "visit": {"topic": f"visits-{self.mark}"},
            "form": {"topic": f"forms-{self.mark}", "schema": "form.json", "key": "/id"},
        }
        (self.folder / "form.json").write_text(json.dumps(SCHEMA))
        (self.folder / "headrace.yaml").write_text(
            json.dumps(
                {
                    "module": "use_cases.py",
                    "database_url": url,
                    "kafka": {"bootstrap.servers": self.bootstrap_servers, **self.kafka},
                    "gateway": {"types": types, "port": self.port, **self.settings},
                }
            )
        )
        self.keys = self._made_keys(url)

    def _made_keys(self, url):
        """A key of each tenant by its name, and of an operator."""
        owners = [(Role.SENDER, name) for name in self.tenants] + [(Role.OPERATOR, None)]
        texts = {}
        store = open_store(url)
        try:
            for name in self.tenants:
                store.registry.add_tenant(Tenant(name))
            for role, tenant in owners:
                text, key = new_key(role, tenant, "test", SECRET.encode(), time.time())
                store.keys.add(key)
                texts[tenant or "operator"] = text
        finally:
            store.close()
        return texts

    def topic(self, tenant="acme", kind="visits"):
        return f"{tenant}.{kind}-{self.mark}"

    def credential(self, who="acme"):
        return {"Authorization": f"Bearer {self.keys[who]}"}

    def client(self, who="acme", **more):
        return httpx.Client(
            base_url=self.url, headers=self.credential(who), timeout=PATIENCE_S, **more
        )

    def start(self, *options):
        """Start it and wait until it answers."""
        with (self.folder / "gateway.log").open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "gateway", *options],
                cwd=self.folder,
                env={**os.environ, "HEADRACE_SECRET": SECRET},
                stdout=out,
                stderr=out,
            )
        until(self.answers, self.log)

    def answers(self):
        assert self.process.poll() is None, self.log()
        try:
            return httpx.get(f"{self.url}/livez", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def log(self):
        return (self.folder / "gateway.log").read_text()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self):
        """Drain it; the exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)


def until(holds, what, deadline_s=PATIENCE_S):
    """Wait for something that is bound to come true."""
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what()}"
        time.sleep(0.02)
