"""What a proxy says counts only from a proxy."""

from typing import Annotated

import pytest
from asking import Asking
from fastapi import Depends, FastAPI, Request

from headrace.doors.door import RequestLimits, install_door
from headrace.doors.guard import Guard, calling
from headrace.doors.proxies import certificate_parts
from headrace.model.credentials import Caller, Role
from headrace.model.everyone import EVERYONE
from headrace.model.streams import Tenant
from headrace.settings.doors import CertificateSettings, DoorsSettings

SECRET = b"a secret of thirty-two characters"
ACME = "URI=spiffe://prod/acme"
HEADER = f'By=spiffe://prod/door;Hash=ab12;Subject="CN=acme,O=\\"A, Inc\\"";{ACME}'


@pytest.fixture
def client_at(store):
    def client_at(address, **settings):
        app = FastAPI()
        chosen = DoorsSettings(**settings)
        install_door(app, Guard(store.keys, SECRET), chosen, "0.0.0.0", RequestLimits())

        @app.post("/who")
        def who(caller: Annotated[Caller, Depends(calling)]) -> list[str | None]:
            return [caller.name, caller.role, caller.tenant]

        @app.get("/seen")
        def seen(request: Request) -> list[str]:
            forwarded = [header for header in request.headers if "forwarded" in header]
            return [request.client.host, request.url.scheme, *forwarded]

        return Asking(app, address=address)

    return client_at


TRUSTING = {
    "proxies": ["10.0.0.0/8", "192.168.1.1"],
    "certificates": {ACME: CertificateSettings(role=Role.SENDER, tenant="acme")},
}
FORWARDED = {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https"}


def test_the_clients_address_is_what_a_trusted_proxy_says(client_at):
    client = client_at("10.1.2.3", **TRUSTING)
    assert client.get("/seen", headers=FORWARDED).json()[:2] == ["9.9.9.9", "https"]
    client = client_at("192.168.1.1", **TRUSTING)
    chain = {"X-Forwarded-For": "1.1.1.1, 9.9.9.9, 10.5.5.5"}
    assert client.get("/seen", headers=chain).json()[0] == "9.9.9.9"


def test_a_proxy_that_comes_by_ipv4_to_a_door_of_ipv6_is_that_address(client_at):
    client = client_at("::ffff:10.1.2.3", **TRUSTING)
    assert client.get("/seen", headers=FORWARDED).json()[:2] == ["9.9.9.9", "https"]


@pytest.mark.parametrize(
    ("sent", "address"),
    [
        ("1.2.3.4:5678", "1.2.3.4"),
        ("[2001:db8::1]:80", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ('"[2001:db8::1]:80"', "2001:db8::1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("1.2.3.4:", "1.2.3.4"),
        ("1.2.3.4:_hidden", "1.2.3.4"),
        ("9.9.9.9, 1.2.3.4:5678, 10.5.5.5:443", "1.2.3.4"),
        ("9.9.9.9,[2001:db8::1]:80,10.5.5.5:_x", "2001:db8::1"),
        ("unknown", "unknown"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("1.2.3.4, [::ffff:10.5.5.5]:443", "1.2.3.4"),
    ],
)
def test_a_port_behind_an_address_is_taken_off(client_at, sent, address):
    client = client_at("10.1.2.3", **TRUSTING)
    assert client.get("/seen", headers={"X-Forwarded-For": sent}).json()[0] == address


def test_two_clients_behind_a_proxy_that_writes_ports_are_two(client_at):
    client = client_at("10.1.2.3", **TRUSTING)

    def guess(address, port):
        sent = {"X-Forwarded-For": f"{address}:{port}", "Authorization": "Bearer wrong"}
        return client.post("/who", headers=sent).status_code

    statuses = [guess("1.2.3.4", f"{port}x") for port in range(31)]
    assert (statuses[0], statuses[-1]) == (401, 429), "its port changes, and it is still one"
    assert guess("1.2.3.5", "1x") == 401


@pytest.mark.parametrize("settings", [TRUSTING, {}])
@pytest.mark.parametrize("address", ["11.0.0.1", "127.0.0.1", "192.168.1.2"])
def test_from_others_nothing_forwarded_gets_inside(client_at, address, settings):
    client = client_at(address, **settings)
    sent = {**FORWARDED, "Forwarded": "for=9.9.9.9", "X-Forwarded-Client-Cert": HEADER}
    assert client.get("/seen", headers=sent).json() == [address, "http"]
    assert client.post("/who", headers=sent).status_code == 401


def test_a_listed_certificate_that_a_proxy_saw_opens_the_door(client_at):
    client = client_at("10.1.2.3", **TRUSTING)
    answer = client.post("/who", headers={"X-Forwarded-Client-Cert": HEADER})
    assert answer.json() == [f"certificate:{ACME}", "sender", "acme"]


def test_no_certificate_is_of_all_customers(client_at, store):
    nobodys = {ACME: CertificateSettings(role=Role.SENDER, tenant=EVERYONE)}
    client = client_at("10.1.2.3", **{**TRUSTING, "certificates": nobodys})
    shown = {"X-Forwarded-Client-Cert": HEADER}
    refused = client.post("/who", headers=shown)
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:headrace:problem:forbidden")
    store.data.tenants[EVERYONE] = Tenant(EVERYONE)  # of an earlier version
    assert client.post("/who", headers=shown).json()[2] == EVERYONE


@pytest.mark.parametrize(
    "page", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_change_that_a_page_makes_by_certificate_has_to_come_from_our_own(client_at, page):
    client = client_at("10.1.2.3", **TRUSTING)
    sent = {"X-Forwarded-Client-Cert": HEADER, **page}
    forged = client.post("/who", headers=sent)
    assert (forged.status_code, forged.json()["type"]) == (403, "urn:headrace:problem:forged")
    assert client.post("/who", headers={**sent, "X-Headrace": "1"}).status_code == 200


@pytest.mark.parametrize(
    "header",
    [
        "URI=spiffe://prod/bolt",
        f"By={ACME}",
        f"{ACME},URI=spiffe://prod/bolt",
        f"URI=spiffe://prod/bolt,{ACME}",
        f'Subject="x;{ACME}"',
        f'Subject="x;{ACME}',
        f"{ACME}/x",
        "",
    ],
)
def test_another_certificate_or_several_open_nothing(client_at, header):
    client = client_at("10.1.2.3", **TRUSTING)
    assert client.post("/who", headers={"X-Forwarded-Client-Cert": header}).status_code == 401


def test_two_certificate_headers_open_nothing(client_at):
    client = client_at("10.1.2.3", **TRUSTING)
    twice = [("X-Forwarded-Client-Cert", HEADER)] * 2
    assert client.post("/who", headers=twice).status_code == 401


def test_a_key_counts_more_than_the_certificate(client_at):
    client = client_at("10.1.2.3", **TRUSTING)
    sent = {"X-Forwarded-Client-Cert": HEADER, "Authorization": "Bearer wrong"}
    assert client.post("/who", headers=sent).status_code == 401


def test_the_parts_of_a_header_are_read_with_their_quotes():
    assert certificate_parts(HEADER) == [
        "By=spiffe://prod/door",
        "Hash=ab12",
        'Subject=CN=acme,O="A, Inc"',
        ACME,
    ]
