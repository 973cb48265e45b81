"""`headrace registry` as a process, to be asked, killed and started again."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from gateway_process import PATIENCE_S, SECRET, until
from headrace.doors.keys import new_key
from headrace.embedded.addresses import free_ports
from headrace.model.credentials import Role
from headrace.model.records import Deployment
from headrace.model.streams import Tenant
from headrace.store import open_store


def made_keys(url):
    """A store with tenant acme and its topic, and keys: of it, of its builds, of an operator."""
    store = open_store(url)
    try:
        store.registry.deploy(Deployment("score", "m.py", "00", "{tenant}.visits"))
        store.registry.add_tenant(Tenant("acme"))
        texts = {}
        for role, tenant in (
            (Role.SENDER, "acme"),
            (Role.SCHEMAS, "acme"),
            (Role.OPERATOR, None),
        ):
            text, key = new_key(role, tenant, "test", SECRET.encode(), time.time())
            store.keys.add(key)
            texts[role] = text
        return texts
    finally:
        store.close()


@dataclass
class RegistryProcess:
    """A registry in a folder, on a store that others may have too."""

    folder: Path
    store_url: str
    settings: dict = field(default_factory=dict)

    def __post_init__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{self.port}"
        whole = {
            "module": "use_cases.py",
            "database_url": self.store_url,
            "schema_registry": {"port": self.port, "judges": 1, **self.settings},
        }
        (self.folder / "headrace.yaml").write_text(json.dumps(whole))

    def log(self):
        return (self.folder / "registry.log").read_text()

    def start(self):
        with (self.folder / "registry.log").open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "registry"],
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

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self):
        """Drain it; the exit code."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
