"""The section ``doors`` of the YAML file: who is let in at gateway, console and registry, and how.

All doors have the same keys, tokens, TLS and proxies, so these are said once. What each door does
besides is in sections of its own.
"""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator, model_validator

from headrace.model.credentials import FOR_ALL, OF_TENANT, Role
from headrace.settings.fields import STRICT, Seconds

Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
_HERE = (("http", "localhost"), ("http", "127.0.0.1"))


def is_safe(url: str) -> bool:
    """Whether nobody on the way can answer in place of who is asked there."""
    to = urlsplit(url)
    return to.scheme == "https" or (to.scheme, to.hostname) in _HERE


class JwtSettings(BaseModel):
    """Whose tokens open the doors, and what in them says tenant and role."""

    model_config = STRICT

    #: claim iss, to the letter
    issuer: str = Field(min_length=1)
    #: what claim aud has to name
    audience: str = Field(min_length=1)
    #: where the issuer publishes its keys (JWKS): https, or http on this machine
    jwks_url: str | None = None
    #: file that holds them
    jwks_file: Path | None = None
    #: asymmetric ones alone
    algorithms: list[Algorithm] = Field(default=["RS256", "ES256"], min_length=1)
    #: by how much clocks may differ
    leeway: Seconds = Field(default="30s")  # type: ignore[assignment]
    #: claim, or JSON pointer such as /realm_access/roles, that names the tenant
    tenant_claim: str = Field(default="tenant", min_length=1)
    #: the same for the role: operator, viewer, tenant or sender
    role_claim: str = Field(default="role", min_length=1)

    @field_validator("jwks_url")
    @classmethod
    def _is_safe(cls, value: str | None) -> str | None:
        if value is None:
            return None
        if not is_safe(value):
            raise ValueError("write https://..., or http:// with localhost or 127.0.0.1")
        if "@" in urlsplit(value).netloc:
            raise ValueError("write no user and no password into it: it stands in logs")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.jwks_url is None) == (self.jwks_file is None):
            raise ValueError("name either jwks_url or jwks_file")
        return self


class TlsSettings(BaseModel):
    """What the doors show and prove who they are with, as PEM files."""

    model_config = STRICT

    #: the certificate, then those above it
    certificate_file: Path
    key_file: Path


class CertificateSettings(BaseModel):
    """Whom a client certificate stands for."""

    model_config = STRICT

    role: Role
    #: of roles tenant and sender, and of schemas where it is for one
    tenant: str | None = None

    @model_validator(mode="after")
    def _tenant_of_role(self) -> Self:
        wrong = FOR_ALL if self.tenant is not None else OF_TENANT
        if self.role in wrong:
            raise ValueError("roles tenant and sender need a tenant, operator and viewer have none")
        return self


class DoorsSettings(BaseModel):
    """What is the same for the gateway and the console: who is let in, and how."""

    model_config = STRICT

    #: file that holds the secret which keys and sessions are checked with; none: HEADRACE_SECRET
    secret_file: Path | None = None
    #: tokens of an issuer; none: only API keys
    jwt: JwtSettings | None = None
    #: none: plain HTTP
    tls: TlsSettings | None = None
    #: names that the doors answer to; none: any, or this machine's where only it can call
    hosts: list[str] = []
    #: addresses and networks of proxies whose X-Forwarded-For and -Client-Cert are believed
    proxies: list[str] = []
    #: callers by client certificates that a proxy has checked, such as URI=spiffe://prod/acme
    certificates: dict[str, CertificateSettings] = {}

    @field_validator("proxies")
    @classmethod
    def _are_networks(cls, value: list[str]) -> list[str]:
        for network in value:
            ip_network(network)
        return value

    @model_validator(mode="after")
    def _certificates_need_proxies(self) -> Self:
        if self.certificates and not self.proxies:
            raise ValueError("certificates are believed from proxies alone; name these")
        return self

    def within(self, folder: Path) -> DoorsSettings:
        """The same, with relative paths starting at ``folder``."""
        tls, jwt = self.tls, self.jwt
        if tls is not None:
            tls = TlsSettings(
                certificate_file=folder / tls.certificate_file, key_file=folder / tls.key_file
            )
        if jwt is not None and jwt.jwks_file is not None:
            jwt = jwt.model_copy(update={"jwks_file": folder / jwt.jwks_file})
        return self.model_copy(update={"tls": tls, "jwt": jwt})
