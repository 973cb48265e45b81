"""Where a door listens, and under which certificate."""

import json
import os
import ssl

import httpx
import pytest
import trustme
from door_app import PATIENCE, made
from door_clients import all_of, opened, quick

from headrace.doors.serving import Listening, Tls, serve, serving
from headrace.errors import ConfigError, ServerError
from own_tls import tls_files


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority, tmp_path_factory):
    return tls_files(authority, tmp_path_factory.mktemp("tls"), "localhost", "127.0.0.1")


def context_of(authority, **limits):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    for name, value in limits.items():
        setattr(context, name, value)
    return context


def test_tls_proves_who_the_server_is(authority, tls):
    with serving(made(), Listening("127.0.0.1", 0, tls)) as url:
        assert url.startswith("https://127.0.0.1:")
        answer = httpx.get(f"{url}/quick", verify=context_of(authority), timeout=60)
        assert answer.json() == "quick"
        assert "Strict-Transport-Security" in answer.headers
        with pytest.raises(httpx.ConnectError, match=r"self-signed|verify failed"):
            httpx.get(f"{url}/quick")
        plain = url.replace("https", "http")
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{plain}/quick")


def test_old_tls_is_refused(authority, tls):
    # Clients that still can are asked to, so that the server is the one that refuses.
    old = context_of(authority)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version = ssl.TLSVersion.TLSv1
    with (
        serving(made(), Listening("127.0.0.1", 0, tls)) as url,
        pytest.raises(httpx.ConnectError),
    ):
        httpx.get(f"{url}/quick", verify=old)


def test_a_tls_client_that_sends_its_header_slowly_is_closed(authority, tls):
    with (
        serving(made(), Listening("127.0.0.1", 0, tls, patience=PATIENCE)) as url,
        opened(url) as plain,
        context_of(authority).wrap_socket(plain, server_hostname="localhost") as slow,
    ):
        slow.sendall(b"GET /quick HT")
        assert all_of(slow).startswith(b"HTTP/1.1 408")


def test_tls_files_that_cannot_be_used_are_named(tls, tmp_path):
    missing = Tls(tmp_path / "no.pem", tls.key_file)
    with (
        pytest.raises(ConfigError, match=r"no\.pem"),
        serving(made(), Listening("::1", 0, missing)),
    ):
        pass
    wrong = Tls(tls.certificate_file, tls.certificate_file)
    with pytest.raises(ConfigError, match="certificate and its key"):
        serve(made(), Listening("127.0.0.1", 0, wrong))


def test_an_address_that_is_taken_or_not_ours_is_named():
    with serving(made(), Listening("127.0.0.1", 0)) as url:
        port = httpx.URL(url).port
        with pytest.raises(
            ConfigError,
            match=rf"127.0.0.1:{port}: process {os.getpid()} \(.* listens there already",
        ):
            serve(made(), Listening("127.0.0.1", port))
        with pytest.raises(
            ConfigError, match=r"another port or address \(console\.port and console\.host\)"
        ):
            serve(made(), Listening("127.0.0.1", port, section="console"))
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:1"):
        serve(made(), Listening("192.0.2.1", 1))
    with pytest.raises(ConfigError, match="no address"):
        serve(made(), Listening("not an address", 1))


def test_ipv6_is_served_and_named_as_a_browser_takes_it():
    with serving(made(), Listening("::1", 0)) as url:
        assert url.startswith("http://[::1]:")
        assert quick(url)


def test_an_application_that_cannot_start_is_told():
    async def broken(scope, receive, send):
        assert scope["type"] == "lifespan"
        await receive()
        await send({"type": "lifespan.startup.failed", "message": json.dumps("no")})

    with pytest.raises(ServerError, match="could not start"), serving(broken, Listening("::1", 0)):
        pass
