"""A door without a guard is for one machine, and for no other site's pages."""

from typing import Annotated

import pytest
from asking import Asking
from fastapi import Depends, FastAPI

from headrace.doors.guard import calling
from headrace.doors.open_guard import OpenGuard
from headrace.doors.problems import install_problems
from headrace.errors import ConfigError
from headrace.model.credentials import Caller


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.evil"])
def test_an_address_that_others_reach_is_refused(host):
    with pytest.raises(ConfigError, match="--insecure-no-auth"):
        OpenGuard(host)


def client_of(guard):
    app = FastAPI()
    app.state.guard = guard
    install_problems(app)

    @app.post("/")
    def who(caller: Annotated[Caller, Depends(calling)]) -> list[str | None]:
        return [caller.role, caller.tenant]

    return Asking(app)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_everybody_is_the_operator(host):
    assert client_of(OpenGuard(host)).post("/").json() == ["operator", None]


def test_a_page_of_another_site_may_not_call():
    client = client_of(OpenGuard("127.0.0.1"))
    for origin in ("http://evil.example", "null", "http://testserver:81"):
        answer = client.post("/", headers={"Origin": origin})
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:headrace:problem:forged")
    assert client.post("/", headers={"Origin": "http://testserver"}).status_code == 200


def test_a_sender_names_its_tenant():
    client = client_of(OpenGuard("127.0.0.1", tenant_from_header=True))
    assert client.post("/", headers={"X-Tenant": "acme"}).json() == ["sender", "acme"]
    assert client.post("/").status_code == 400
