"""The doors of the demo: a gateway that visits come in by, a console to look at and to act.

They run in threads beside the driver and end with it. Their secret and their keys are kept in the
demo's folder, in files for its owner alone, so that a link that logged in once goes on doing so in
the second act and after a kill; the stores know only digests of them. Their ports are looked for
when they open: between two acts, and while Spark starts, others may take the usual ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.console.opening import console_app, console_listening, console_serving, login_link
from headrace.demo.avro_visits import POSTED_SUBJECT
from headrace.demo.poster import POSTED
from headrace.demo.visits import GUEST
from headrace.doors.door import guard_of, listening_of
from headrace.doors.keys import digest_of, new_key, prefix_of
from headrace.doors.secret import made_secret_file, secret_of
from headrace.doors.serving import serving
from headrace.embedded.addresses import free_ports, refuse_taken_port
from headrace.errors import ServerError
from headrace.gateway.opening import gateway_of
from headrace.model.credentials import Key, Role
from headrace.operating.tools import KafkaTools
from headrace.ports import Keys
from headrace.process.clock import SystemClock
from headrace.running.assembly import Assembly
from headrace.settings import Settings

CONSOLE_PORT = 8600
GATEWAY_PORT = 8601
#: of nobody's tenant
OPERATOR = "operator"
VIEWER = "viewer"


@dataclass(frozen=True, slots=True)
class Doors:
    """Where they are."""

    #: logs a browser in
    console_link: str
    #: None: there is none, as where visits go to no topic
    gateway_url: str | None
    #: of senders, by tenant
    keys: dict[str, str]
    folder: Path

    @property
    def invitation(self) -> str:
        """What to look at, and what to type."""
        typed = "" if self.gateway_url is None else f"\nor type  {self.curl}"
        return f"console  {self.console_link}{typed}"

    @property
    def curl(self) -> str:
        """A line that posts a visit of the guest."""
        file, here = _key_file(self.folder, GUEST), Path.cwd()
        near = file.relative_to(here) if file.is_relative_to(here) else file
        return (
            f'curl {self.gateway_url}/v1/events/visit -H "Authorization: Bearer $(cat {near})" '
            "-H 'Content-Type: application/json' "
            """-d '{"lead": "me", "path": "/projects/keynav/"}'"""
        )


@contextmanager
def doors(
    made: Assembly, settings: Settings, folder: Path, *, with_gateway: bool
) -> Iterator[Doors]:
    """Open both, or the console alone, for the driver's store.

    Raises:
        ServerError: one of them could not start.
    """
    if not with_gateway:
        with console(made, settings, folder) as link:
            yield Doors(link, None, {}, folder)
        return
    secret, store = secret_of(settings), made.store
    keys = {tenant: key_of(store.keys, folder, tenant, secret) for tenant in (*POSTED, GUEST)}
    # The partition of a lead is to be that of its visits that do not come this way.
    kafka = {**settings.kafka, "partitioner": "consistent_random"}
    gateway = gateway_of(
        settings.model_copy(update={"kafka": kafka}), guard_of(settings, store.keys), store
    )
    port = _free(settings.gateway.port)
    listening = listening_of(settings.doors, settings.gateway.host, port)
    with serving(gateway, listening) as url, console(made, settings, folder) as link:
        yield Doors(link, url, keys, folder)


@contextmanager
def console(made: Assembly, settings: Settings, folder: Path) -> Iterator[str]:
    """Open the console, for the driver's store; yields the link that logs in."""
    operator = key_of(made.store.keys, folder, OPERATOR, secret_of(settings))
    app = console_app(settings, made.store, KafkaTools(made.connections), SystemClock())
    listening = console_listening(settings)
    listening = replace(listening, port=_free(listening.port))
    with console_serving(app, listening) as url:
        yield login_link(url, operator)


def sections(folder: Path) -> dict[str, object]:
    """What the YAML file would say of them, and the secret that they need."""
    return {
        "doors": {"secret_file": made_secret_file(folder / "keys" / "secret")},
        "console": {"port": CONSOLE_PORT},
        "schema_registry": {"port": 0},
        "gateway": {
            "port": GATEWAY_PORT,
            "types": {"visit": {"topic": "visits", "key": "/lead", "subject": POSTED_SUBJECT}},
            # The demo kills its broker, and a visit is not to be given up for that.
            "delivery_timeout": "60s",
        },
    }


def _free(port: int) -> int:
    """The port if it is free, else another one that is."""
    try:
        refuse_taken_port(port, "the demo")
    except ServerError:
        return free_ports(1)[0]
    return port


def _key_file(folder: Path, name: str) -> Path:
    return folder / "keys" / name


def key_of(keys: Keys, folder: Path, name: str, secret: bytes) -> str:
    """The key of a tenant, operator or viewer, known to the store; made if it is not there."""
    file = _key_file(folder, name)
    tenant = None if name in (OPERATOR, VIEWER) else name
    role = Role.SENDER if tenant is not None else Role(name)
    text, key = new_key(role, tenant, "made by the demo", secret, SystemClock().now_s())
    if file.is_file():
        text = file.read_text("utf-8").strip()
        prefix = prefix_of(text)
        assert prefix is not None, file
        key = Key(prefix, digest_of(text, secret), role, tenant, key.label, key.created_at_s)
    else:
        with open(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as made:
            made.write(text + "\n")
    if keys.find(key.prefix) is None:
        keys.add(key)
    return text
