"""`headrace registry` as a process, to be asked, killed and started again."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from door_process import SECRET, DoorProcess
from headrace.doors.keys import new_key
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
class RegistryProcess(DoorProcess):
    """A registry in a folder, on a store that others may have too."""

    folder: Path
    store_url: str
    settings: dict = field(default_factory=dict)

    def __post_init__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        super().__init__(self.folder, "registry")
        whole = {
            "module": "use_cases.py",
            "database_url": self.store_url,
            "schema_registry": {"port": self.port, "judges": 1, **self.settings},
        }
        (self.folder / "headrace.yaml").write_text(json.dumps(whole))
