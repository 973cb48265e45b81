"""Where the schema registry is, by the names that Confluent's clients have for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, Field, SecretStr

from headrace.settings.fields import STRICT


class RegistrySettings(BaseModel):
    """The registry that records name their schemas in; nothing said: there is none."""

    model_config = STRICT

    #: one address or several, separated by commas, such as http://registry:8081
    url: SecretStr | None = Field(default=None, alias="schema.registry.url")
    #: USER_INFO, or URL where it is in the address
    basic_source: str | None = Field(default=None, alias="basic.auth.credentials.source")
    #: user:password
    user_info: SecretStr | None = Field(default=None, alias="basic.auth.user.info")
    #: file that holds it
    user_info_file: Path | None = Field(default=None, alias="basic.auth.user.info.file")
    #: STATIC_TOKEN
    bearer_source: str | None = Field(default=None, alias="bearer.auth.credentials.source")
    token: SecretStr | None = Field(default=None, alias="bearer.auth.token")
    #: file that holds it
    token_file: Path | None = Field(default=None, alias="bearer.auth.token.file")
    #: of Confluent Cloud, beside a token
    logical_cluster: str | None = Field(default=None, alias="bearer.auth.logical.cluster")
    identity_pool: str | None = Field(default=None, alias="bearer.auth.identity.pool.id")
    #: PEM files, wherever tasks run: who signed the registry's certificate, and one's own
    ca: str | None = Field(default=None, alias="ssl.ca.location")
    certificate: str | None = Field(default=None, alias="ssl.certificate.location")
    key: str | None = Field(default=None, alias="ssl.key.location")
    key_password: SecretStr | None = Field(default=None, alias="ssl.key.password")

    def properties(self, read: Callable[[Path], str]) -> dict[str, str]:
        """What was said, by its names, with secrets where files name them.

        Args:
            read: gives what is in a file.
        """
        given: dict[str, str] = {}
        for name, field in type(self).model_fields.items():
            value, key = getattr(self, name), field.alias
            assert key is not None, "each has the name that users know"
            if isinstance(value, Path):
                given[key.removesuffix(".file")] = read(value)
            elif value is not None:
                given[key] = value.get_secret_value() if isinstance(value, SecretStr) else value
        return given
