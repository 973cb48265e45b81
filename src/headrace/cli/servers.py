"""Where `headrace up` keeps its servers' addresses, so that the other commands find them.

`up` starts servers on free ports, and nobody should have to copy ports into a file. So it leaves
the addresses beside the YAML file, in `.headrace/up`, and every command that reads the YAML file
takes from there what the file does not name. What the file names always wins. The secret of the
doors, and the key of drivers at the schema registry, are found the same way: they are in files of
their own, and only their paths stand here. The next `up` takes the same ports (`kept_ports.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Literal

from pydantic import SecretStr

from headrace.cli.failure_text import when
from headrace.doors.secret import keep_secret
from headrace.embedded.folder_lock import FolderLock, held_since_s, holder
from headrace.errors import ConfigError, ServerError
from headrace.settings import Settings
from headrace.settings.connections import ConnectionSettings
from headrace.settings.registry import RegistrySettings

#: by the name of its section in the YAML file
Door = Literal["console", "gateway", "schema_registry"]
_FILE = "servers.json"


class Extra(Enum):
    """What `up --with` may start; each is the name of its connection and of its folder."""

    CASSANDRA = "cassandra"
    VALKEY = "valkey"
    OPENSEARCH = "opensearch"
    SOLR = "solr"
    HBASE = "hbase"
    KINESIS = "kinesis"


#: who one is at a server that was started here, where its client wants to be told
_LOGINS: Final = {Extra.KINESIS: (SecretStr("local"), SecretStr("local"))}


def folder_of(base: Path) -> Path:
    """Where `up` keeps its servers, for a YAML file in ``base``."""
    return base / ".headrace" / "up"


def remember(folder: Path, addresses: dict[str, str]) -> None:
    """Leave the addresses for other commands."""
    # There is a password among them, and others read while this is written.
    keep_secret(folder / _FILE, json.dumps(addresses, indent=1))


def the_only_up(folder: Path) -> FolderLock:
    """Held as long as `up` starts or runs with its servers in ``folder``.

    Raises:
        ServerError: another one does; two would want the same files.
    """
    _refuse_second_up(folder)
    return FolderLock(folder)


def _refuse_second_up(folder: Path) -> None:
    """Look, and leave nothing behind.

    Raises:
        ServerError: one starts or runs with its servers in ``folder``.
    """
    if (process := holder(folder)) is not None:
        raise ServerError(
            f"'headrace up' runs here already (process {process}, {folder}): other commands find "
            "it, in a second terminal; to start it anew, end it with 'headrace down' first"
        )


@dataclass(frozen=True, slots=True)
class RunningUp:
    """An `up` that runs now, as far as its folder tells."""

    #: since when, in seconds since 1970
    since_s: float
    #: when all of its servers were there; None: they are not yet
    served_s: float | None

    @property
    def told(self) -> str:
        """It, in words."""
        return f"'headrace up' runs here since {when(self.since_s)}"


def running_up(base: Path) -> RunningUp | None:
    """The `up` that starts or runs in ``base`` now; None: none does."""
    folder = folder_of(base)
    since_s = held_since_s(folder)
    if since_s is None:
        return None
    try:
        served_s = (folder / _FILE).stat().st_mtime
    except OSError:
        return RunningUp(since_s, None)
    # An older file is that of the `up` before.
    return RunningUp(since_s, served_s if served_s >= since_s else None)


def about_up(base: Path) -> str | None:
    """What to do where a server of `up` does not answer; None if `up` never was in ``base``."""
    if (up := running_up(base)) is not None:
        if up.served_s is None:
            return f"{up.told}, and its servers are not all there yet: try again when it names them"
        served = when(up.served_s)
        return f"{up.told}, and its servers were there at {served}: see what it says, and try again"
    if (folder_of(base) / _FILE).is_file():
        return "'headrace up' does not run here now: type 'headrace up', and try again"
    return None


def completed(settings: Settings, base: Path) -> Settings:
    """The settings, with what they do not name taken from the servers that `up` started.

    Raises:
        ConfigError: the file that `up` left cannot be read.
    """
    return with_addresses(settings, remembered(folder_of(base)))


def remembered(folder: Path) -> dict[str, str]:
    """The addresses that `up` left; none if it never ran.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = folder / _FILE
    if not path.is_file():
        return {}
    try:
        addresses: dict[str, str] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{path} cannot be read; start 'headrace up' again") from exc
    return addresses


def _connection(extra: Extra, url: str) -> ConnectionSettings:
    user, password = _LOGINS.get(extra, (None, None))
    return ConnectionSettings(url=SecretStr(url), user=user, password=password)


def with_addresses(settings: Settings, addresses: Mapping[str, str]) -> Settings:
    """The settings, with addresses for what they do not name themselves."""
    found: dict[str, object] = {}
    if "bootstrap.servers" in addresses:
        servers = {"bootstrap.servers": addresses["bootstrap.servers"]}
        found["kafka"] = {**servers, **settings.kafka}
    if "smtp_url" in addresses and settings.mail_url() is None:
        found["smtp_url"] = SecretStr(addresses["smtp_url"])
    if "database_url" in addresses and not settings.names_a_store():
        found["database_url"] = SecretStr(addresses["database_url"])
    if "secret_file" in addresses and not settings.names_a_secret():
        doors = settings.doors.model_copy(update={"secret_file": Path(addresses["secret_file"])})
        found["doors"] = doors
    started = {
        extra.value: _connection(extra, addresses[f"{extra.value}_url"])
        for extra in Extra
        if f"{extra.value}_url" in addresses
    }
    if started:
        found["connections"] = {**started, **settings.connections}
    # One that the YAML file named is told to readers; without the section nobody may ask it.
    if "registry_user_file" in addresses and not settings.names_a_registry():
        asked = {
            "schema.registry.url": addresses["registry_url"],
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info.file": addresses["registry_user_file"],
        }
        found["registry"] = RegistrySettings.model_validate(asked)
    return settings.model_copy(update=found)


def with_address(settings: Settings, door: Door, host: str | None, port: int | None) -> Settings:
    """The settings, with the address of a door that was typed."""
    typed = {"host": host, "port": port}
    update = {name: value for name, value in typed.items() if value is not None}
    section = getattr(settings, door).model_copy(update=update)
    return settings.model_copy(update={door: section})
