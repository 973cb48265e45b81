"""The one YAML file: every setting, typed, with unit, default and one line of meaning.

A typo in a configuration must not silently mean the default, so unknown keys are refused, and an
error names the file, the line and the key. Secrets do not belong in the file: any text may say
``${NAME}`` and is filled from the environment, and what is secret can be read from files
(``database_url_file``, ``smtp_url_file``, ``doors.secret_file``), as containers mount them.

Words are those that users know: ``kafka`` holds client properties, ``spark`` holds ``spark.*``
settings, durations are ``10s`` or ``250ms`` and sizes ``64m``, as in Spark.

Commands are typed in many folders and must find the same store. So every relative path, wherever it
is said, starts at the folder of the YAML file. Paths among the ``kafka`` and ``spark`` properties
are passed on as they are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, PrivateAttr, SecretStr, ValidationError

from headrace.errors import ConfigError
from headrace.model.streams import DataLossPolicy
from headrace.settings_console import ConsoleSettings
from headrace.settings_doors import DoorsSettings
from headrace.settings_fields import STRICT, Bytes, Folder, Properties, Seconds
from headrace.settings_gateway import GatewaySettings

#: the path in the URL of a SQLite file, if it is relative
_RELATIVE_SQLITE = re.compile(r"\A(sqlite(?:\+pysqlite)?:///)(?![/:]|file:)(.+)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _Section(BaseModel):
    model_config = STRICT


class UseCaseSettings(_Section):
    """What an operator may choose for one use case, without touching its code."""

    #: share of the executors against the other use cases
    priority: int = Field(default=1, ge=1)
    #: where a tenant's stream begins when it has no position: earliest or latest
    startingOffsets: Literal["earliest", "latest"] = "earliest"  # noqa: N815 - Spark's word
    #: every tenant has it; false: streams are added one by one
    all_tenants: bool = True
    #: how often a record that a handler raised or hung at is tried again, with waits between,
    #: before that counts as the record's fault and ``bad_record`` of the use case decides
    retries: int = Field(default=3, ge=0)
    #: seconds that one call of the handler may take; longer and its worker is ended, and the slice
    #: counts as hung
    handler_timeout: Seconds = Field(default="30s")  # type: ignore[assignment]
    #: most records a second of one lane, for handlers that talk to something slow; null: no limit
    max_rate_per_lane: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    #: what becomes of a stream whose topic no longer has the records that are next: fail suspends
    #: it with the offsets until somebody seeks it, skip lets it go on where the topic does
    data_loss: DataLossPolicy = DataLossPolicy.FAIL
    #: handed to the handler as context.options
    options: Properties = {}


class DriverSettings(_Section):
    """How a driver works."""

    #: unique among the drivers that share the store, where the next one of a name replaces the one
    #: before; none: the machine's name and the module
    name: str | None = Field(default=None, min_length=1)
    #: silence after which the other drivers of the store take over what this one holds
    lease: Seconds = Field(default="15s")  # type: ignore[assignment]
    #: predicted task time of a bin; also the time after which a running one yields
    bin_budget: Seconds = Field(default="1s")  # type: ignore[assignment]
    #: bins of one wave; few means that quick tenants wait less for slow ones
    bins_per_wave: int = Field(default=1, ge=1)
    #: most tasks at once on a cluster whose executors follow the load; none: as many as Spark has
    most_slots: int | None = Field(default=None, ge=1)
    #: executors that stay when nothing is to do, where most_slots is set
    least_slots: int = Field(default=1, ge=1)
    #: a backlog is to be worked off within so long; more slots are used until it is
    target_delay: Seconds = Field(default="2s")  # type: ignore[assignment]
    #: most records of one slice
    slice_records: int = Field(default=100_000, ge=1)
    #: most bytes of one slice; bounds the memory of a worker
    slice_bytes: Bytes = Field(default="64m")  # type: ignore[assignment]
    #: how long a draining driver waits for running waves before it cancels them
    drain_timeout: Seconds = Field(default="30s")  # type: ignore[assignment]
    #: show positions as the offsets of consumer groups, for tools that watch lag
    mirror: bool = True
    #: what the names of these groups begin with; the name of the use case follows
    mirror_prefix: str = Field(default="headrace.", min_length=1)


class Settings(_Section):
    """Everything a driver is told."""

    #: Python file, or dotted name, that holds the use cases
    module: str
    #: where copies of deployed versions are kept; all drivers of a store are to see it
    versions: Folder = Path(".headrace/versions")
    #: what importing the module, packing its use cases and preparing their sinks may take together
    deploy_timeout: Seconds = Field(default="60s")  # type: ignore[assignment]
    #: client properties, such as bootstrap.servers and sasl.*
    kafka: Properties = Field(default={}, repr=False)
    #: SQLAlchemy URL of the store
    database_url: SecretStr | None = None
    #: file that holds the URL of the store
    database_url_file: Path | None = None
    #: smtp://user:password@host:port, for the e-mail sink
    smtp_url: SecretStr | None = None
    #: file that holds the SMTP URL
    smtp_url_file: Path | None = None
    #: root folder of the file sinks; on a cluster one that driver and executors share
    warehouse: Folder = Path("warehouse")
    #: Spark master; none: what spark-submit says
    master: str | None = None
    #: spark.* settings
    spark: Properties = Field(default={}, repr=False)
    #: by name; a use case not named here runs with the defaults
    use_cases: dict[str, UseCaseSettings] = {}
    driver: DriverSettings = DriverSettings()
    doors: DoorsSettings = DoorsSettings()
    gateway: GatewaySettings = GatewaySettings()
    console: ConsoleSettings = ConsoleSettings()
    _folder: Path = PrivateAttr(default_factory=Path)

    def within(self, folder: Path) -> Settings:
        """The same, with relative paths starting at ``folder``."""
        update = {
            "warehouse": folder / self.warehouse,
            "versions": folder / self.versions,
            "doors": self.doors.within(folder),
            "gateway": self.gateway.within(folder),
        }
        made = self.model_copy(update=update)
        made._folder = folder
        return made

    def of_use_case(self, name: str) -> UseCaseSettings:
        """The settings of one use case."""
        return self.use_cases.get(name, UseCaseSettings())

    def names_a_store(self, environment: Mapping[str, str] = os.environ) -> bool:
        """Whether anybody says where the store is."""
        named = (self.database_url_file, self.database_url, environment.get("DATABASE_URL"))
        return any(each is not None for each in named)

    def store_url(self, environment: Mapping[str, str] = os.environ) -> str:
        """Where the store is: the file, else ``database_url``, else ``DATABASE_URL``.

        Raises:
            ConfigError: nobody says.
        """
        fallback = environment.get("DATABASE_URL")
        found = self._secret(self.database_url_file, self.database_url, fallback)
        if found is None:
            raise ConfigError(
                "no store is named, and 'headrace up' has made none here: start it, or set "
                "database_url or database_url_file in the YAML file, or DATABASE_URL in the "
                "environment, such as sqlite:///headrace.db"
            )
        return _RELATIVE_SQLITE.sub(lambda match: f"{match[1]}{self._folder / match[2]}", found)

    def mail_url(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Where mail goes: the file, else ``smtp_url``, else ``SMTP_URL``."""
        return self._secret(self.smtp_url_file, self.smtp_url, environment.get("SMTP_URL"))

    def names_a_secret(self, environment: Mapping[str, str] = os.environ) -> bool:
        """Whether anybody says what keys and sessions are checked with."""
        return self.doors.secret_file is not None or "HEADRACE_SECRET" in environment

    def service_secret(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """What keys and sessions are checked with: the file, else ``HEADRACE_SECRET``."""
        return self._secret(self.doors.secret_file, None, environment.get("HEADRACE_SECRET"))

    def _secret(
        self, file: Path | None, value: SecretStr | None, fallback: str | None
    ) -> str | None:
        if file is None:
            return value.get_secret_value() if value is not None else fallback
        path = self._folder / file
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as exc:
            raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc


def read_settings(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the file; relative paths in it start at its folder.

    Raises:
        ConfigError: it is not there, is not YAML, or holds something that cannot be; the message
            names file, line and key, one line for each fault.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        what = "write it ('module: use_cases.py' is enough), or name yours with --config"
        raise ConfigError(f"there is no {path}: {what}") from exc
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not UTF-8 text: {exc.reason}") from exc
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path}: {_yaml_fault(exc)}") from exc
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a mapping is expected, such as 'module: use_cases.py'")
    try:
        settings = Settings.model_validate(_filled(data, environment, path))
    except ValidationError as exc:
        faults = [
            f"{path}, line {_line(node, each['loc'])}: "
            f"{'.'.join(str(part) for part in each['loc'])}: {_meaning(each)}"
            for each in exc.errors()
        ]
        raise ConfigError("\n".join(faults)) from exc
    return settings.within(path.resolve().parent)


def _yaml_fault(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "not YAML"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)


def _meaning(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return "there is no such key"
    if fault["type"] == "missing":
        return "this key is missing"
    return str(fault["msg"]).removeprefix("Value error, ")


def _line(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """The line of the deepest part of the location that is in the file."""
    line = 1
    for part in location:
        if not isinstance(node, yaml.MappingNode):
            break
        for key, value in node.value:
            if key.value == str(part):
                line, node = key.start_mark.line + 1, value
                break
        else:
            break
    return line


def _filled(value: Any, environment: Mapping[str, str], path: Path) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, environment, path) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, environment, path) for each in value]
    if not isinstance(value, str):
        return value
    missing = [name for name in _VARIABLE.findall(value) if name not in environment]
    if missing:
        raise ConfigError(
            f"{path}: ${{{missing[0]}}} is used, but the environment has no such name"
        )
    return _VARIABLE.sub(lambda match: environment[match.group(1)], value)
