"""Everything that the YAML file says, and where its secrets are found."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, Field, PrivateAttr, SecretStr

from headrace.errors import ConfigError
from headrace.policies.backpressure import PaceBounds
from headrace.ports import Server
from headrace.settings.connections import ConnectionName, ConnectionSettings
from headrace.settings.console import ConsoleSettings
from headrace.settings.doors import DoorsSettings
from headrace.settings.driver import DriverSettings, UseCaseSettings
from headrace.settings.fields import STRICT, Folder, Properties, Seconds, refuse_unset
from headrace.settings.gateway import GatewaySettings
from headrace.settings.registry import RegistrySettings
from headrace.settings.schema_registry import SchemaRegistrySettings

#: the path in the URL of a SQLite file, if it is relative
_RELATIVE_SQLITE = re.compile(r"\A(sqlite(?:\+pysqlite)?:///)(?![/:]|file:)(.+)", re.DOTALL)


class Settings(BaseModel):
    """Everything a driver is told."""

    model_config = STRICT

    #: Python file, or dotted name, that holds the use cases
    module: str
    #: where copies of deployed versions are kept; all drivers of a store are to see it
    versions: Folder = Path(".headrace/versions")
    #: what importing the module, packing its use cases and preparing their sinks may take together
    deploy_timeout: Seconds = Field(default="60s")  # type: ignore[assignment]
    #: client properties, such as bootstrap.servers and sasl.*
    kafka: Properties = Field(default={}, repr=False)
    #: where schemas of records are, by Confluent's keys, such as schema.registry.url
    registry: RegistrySettings = RegistrySettings()
    #: SQLAlchemy URL of the store
    database_url: SecretStr | None = None
    #: file that holds the URL of the store
    database_url_file: Path | None = None
    #: smtp://user:password@host:port, for the e-mail sink
    smtp_url: SecretStr | None = None
    #: file that holds the SMTP URL
    smtp_url_file: Path | None = None
    #: servers of any kind, by the names that sinks have for them
    connections: dict[ConnectionName, ConnectionSettings] = Field(default={}, repr=False)
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
    schema_registry: SchemaRegistrySettings = SchemaRegistrySettings()
    _folder: Path = PrivateAttr(default_factory=Path)
    _versions_beside: bool = PrivateAttr(default=True)

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
        made._versions_beside = not self.versions.is_absolute()
        return made

    @property
    def versions_beside(self) -> bool:
        """Whether copies are kept beside the YAML file, wherever that is."""
        return self._versions_beside

    def of_use_case(self, name: str) -> UseCaseSettings:
        """The settings of one use case."""
        return self.use_cases.get(name, UseCaseSettings())

    def names_a_store(self, environment: Mapping[str, str] = os.environ) -> bool:
        """Whether anybody says where the store is."""
        named = (self.database_url_file, self.database_url, environment.get("DATABASE_URL"))
        return any(value is not None for value in named)

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
        return self._placed(found)

    def mail_url(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """Where mail goes: the file, else ``smtp_url``, else ``SMTP_URL``."""
        return self._secret(self.smtp_url_file, self.smtp_url, environment.get("SMTP_URL"))

    def servers(self) -> dict[str, Server]:
        """The connections, by their names.

        Raises:
            ConfigError: a file with a secret cannot be read, or the environment lacks one.
        """
        found = {name: said.server(name, self._read) for name, said in self.connections.items()}
        return {name: replace(one, url=self._placed(one.url)) for name, one in found.items()}

    def paces(self) -> dict[str, PaceBounds]:
        """How many records a second the connections are given, by their names."""
        return {name: said.records_per_s.bounds for name, said in self.connections.items()}

    def registry_properties(self) -> dict[str, str]:
        """Where the schema registry is, and its credentials; empty: there is none.

        Raises:
            ConfigError: a file with a secret cannot be read, or the environment lacks one.
        """
        given = self.registry.properties(self._read)
        refuse_unset("registry", given)
        return given

    def kafka_properties(self) -> dict[str, str]:
        """Of the client.

        Raises:
            ConfigError: the environment lacks one.
        """
        refuse_unset("kafka", self.kafka)
        return self.kafka

    def names_a_registry(self) -> bool:
        """Whether anybody says where the schema registry is, or how it is asked."""
        return bool(self.registry.model_fields_set)

    def names_a_secret(self, environment: Mapping[str, str] = os.environ) -> bool:
        """Whether anybody says what keys and sessions are checked with."""
        return self.doors.secret_file is not None or "HEADRACE_SECRET" in environment

    def service_secret(self, environment: Mapping[str, str] = os.environ) -> str | None:
        """What keys and sessions are checked with: the file, else ``HEADRACE_SECRET``."""
        return self._secret(self.doors.secret_file, None, environment.get("HEADRACE_SECRET"))

    def _placed(self, url: str) -> str:
        """The URL, with the path of a SQLite file made whole."""
        return _RELATIVE_SQLITE.sub(lambda match: f"{match[1]}{self._folder / match[2]}", url)

    def _secret(
        self, file: Path | None, value: SecretStr | None, fallback: str | None
    ) -> str | None:
        if file is None:
            return value.get_secret_value() if value is not None else fallback
        return self._read(file)

    def _read(self, file: Path) -> str:
        refuse_unset("the path of a file", {"its name": str(file)})
        path = self._folder / file
        try:
            return path.read_text(encoding="utf-8").strip()
        except OSError as exc:
            raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{path} is not UTF-8 text: {exc.reason}") from None
