"""A gateway as an operator starts it: a process, a YAML file, a store with keys."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from door_process import PATIENCE_S, SECRET, DoorProcess
from headrace.doors.keys import new_key
from headrace.model.credentials import Role
from headrace.model.streams import Tenant
from headrace.store import open_store

SCHEMA = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}


@dataclass
class GatewayProcess(DoorProcess):
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
        super().__init__(self.folder, "gateway")
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
