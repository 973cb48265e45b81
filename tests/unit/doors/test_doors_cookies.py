"""Whoever shows cookies shows a session, or nothing."""

import pytest
from asking import Asking
from fastapi import FastAPI, Request

from headrace.doors.door import RequestLimits, install_door
from headrace.doors.guard import SESSION_COOKIE, SESSION_COOKIE_OVER_TLS
from headrace.settings.doors import DoorsSettings
from own_time import calls_of


@pytest.fixture
def client():
    app = FastAPI()

    @app.get("/")
    async def shown(request: Request) -> dict[str, str]:
        return request.cookies

    install_door(app, None, DoorsSettings(), "127.0.0.1", RequestLimits())
    return Asking(app, base_url="http://localhost")


@pytest.mark.parametrize("name", [SESSION_COOKIE, SESSION_COOKIE_OVER_TLS])
@pytest.mark.parametrize("shown", ["{}=hr.1.ab", "a=b; {}=hr.1.ab", "{}=hr.1.ab;a=b; =;;"])
def test_the_session_is_seen_and_no_other_cookie_is(client, name, shown):
    answer = client.get("/", headers={"Cookie": shown.format(name)})
    assert answer.json() == {name: "hr.1.ab"}


@pytest.mark.parametrize("shown", ["", ";", "a", f"{SESSION_COOKIE}x=1", f'{SESSION_COOKIE}="a"'])
def test_who_shows_none_shows_none(client, shown):
    assert client.get("/", headers={"Cookie": shown}).json() == {}


@pytest.mark.parametrize("name", [SESSION_COOKIE, "a"])
def test_quoted_text_takes_no_time(client, name):
    quoted, found = f"{name}=" + '"' + '\\"' * 15_500 + '"', []
    client.get("/")
    # each of the quoted pairs would be looked for
    calls_of(lambda: found.append(client.get("/", headers={"Cookie": quoted}).json()), most=50_000)
    assert found == [{}]
