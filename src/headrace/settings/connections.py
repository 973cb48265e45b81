"""A server that sinks know by its name: where it is, and who one is there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, SecretStr, model_validator

from headrace.errors import ConfigError
from headrace.model.patterns import TENANT, misspelt_place
from headrace.model.topic_names import CONNECTION_NAME
from headrace.policies.backpressure import PaceBounds
from headrace.ports import Server
from headrace.settings.fields import STRICT, refuse_unset

#: as sinks say it, and messages show it
ConnectionName = Annotated[str, Field(pattern=rf"^{CONNECTION_NAME}$")]


class RateSettings(BaseModel):
    """How many records a second a driver gives to a server; drivers do not share them."""

    model_config = STRICT

    #: to begin with, until it has shown that it takes more; null: no limit until it is overloaded
    initial: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    #: however much it refuses; null: 1
    least: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    #: however much it takes, such as what an account may ask for; null: no limit
    most: float | None = Field(default=None, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _is_in_order(self) -> RateSettings:
        said = [rate for rate in (self.least, self.initial, self.most) if rate is not None]
        if said != sorted(said):
            raise ValueError("least is not more than initial, and that not more than most")
        return self

    @property
    def bounds(self) -> PaceBounds:
        """The same, as paces are held to it."""
        return PaceBounds(self.initial, self.least, self.most)


class ConnectionSettings(BaseModel):
    """One of ``connections``; of a value and a file that holds it, the file is taken."""

    model_config = STRICT

    #: such as postgresql://db/history
    url: SecretStr | None = None
    #: file that holds it
    url_file: Path | None = None
    #: where they do not stand in the URL
    user: SecretStr | None = None
    user_file: Path | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    #: most records that it is given, of sinks that write there
    records_per_s: RateSettings = RateSettings()

    @model_validator(mode="after")
    def _has_an_address(self) -> ConnectionSettings:
        if self.url is None and self.url_file is None:
            raise ValueError("say where it is: url, or url_file")
        return self

    def server(self, name: str, read: Callable[[Path], str]) -> Server:
        """What was said, with what stands in files.

        Args:
            name: of the connection, for messages.
            read: gives what is in a file.

        Raises:
            ConfigError: a file cannot be read, the environment lacks a value, or what looks like
                ``{tenant}`` is none.
        """
        found: dict[str, str | None] = {}
        for key in ("url", "user", "password"):
            file, value = getattr(self, f"{key}_file"), getattr(self, key)
            found[key] = value.get_secret_value() if value is not None else None
            if file is not None:
                found[key] = read(file)
        given = {key: text for key, text in found.items() if text is not None}
        refuse_unset(f"connections: {name}", given)
        for key in ("url", "user"):
            if odd := misspelt_place(given.get(key, "")):
                raise ConfigError(
                    f"connections: {name}: {key}: {odd} is no place for a tenant; write {TENANT}"
                )
        return Server(**given)
