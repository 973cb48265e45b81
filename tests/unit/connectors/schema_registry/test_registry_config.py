"""Where the registry is: read from Confluent's keys, and shown without a password."""

import logging
import sys

import pytest

from headrace.connectors.schema_registry import (
    RegistrySchemasFactory,
    registry_config,
    require_client,
)
from headrace.errors import ConfigError, RegistryUnavailable
from headrace.ports import Connections, NoRegistry

URL = "schema.registry.url"
INFO = "basic.auth.user.info"


def test_several_addresses_are_shown_without_what_is_secret():
    config = registry_config({URL: "http://a:8081/x/ , https://u:hunter2@[::1]:1"})
    assert str(config) == "http://a:8081/x, https://[::1]:1"
    assert "hunter2" not in repr(config)
    assert config.servers[1].headers["Authorization"] == "Basic dTpodW50ZXIy"


WRONG = {
    "an unknown key": (
        {URL: "http://a", "basic.auth.user": "x"},
        r"there is no basic\.auth\.user;",
    ),
    "no address": ({INFO: "me:hunter2"}, r"schema\.registry\.url is missing"),
    "no scheme": ({URL: "hunter2:8081"}, r"looks like http://registry:8081"),
    "another scheme": ({URL: "mock://hunter2"}, r"looks like http://registry:8081"),
    "one that is none": ({URL: "http://[hunter2"}, r"looks like http://registry:8081"),
    "an empty one": ({URL: "http://a,"}, r"looks like http://registry:8081"),
    "a query": ({URL: "http://a?hunter2"}, r"looks like http://registry:8081"),
    "no colon": ({URL: "http://a", INFO: "hunter2"}, r"is user:password"),
    "a line": ({URL: "http://a", "bearer.auth.token": "hunter2\n"}, r"no header can hold"),
    "two ways": (
        {URL: "http://a", INFO: "me:hunter2", "bearer.auth.token": "t"},
        r"two ways; leave one",
    ),
    "two passwords": ({URL: "http://u:p@a", INFO: "me:hunter2"}, r"there is another one beside"),
    "a source": (
        {URL: "http://a", "basic.auth.credentials.source": "SASL_INHERIT"},
        r"credentials.source is USER_INFO or URL",
    ),
    "a source without": (
        {URL: "http://a", "basic.auth.credentials.source": "USER_INFO"},
        r"basic\.auth\.user\.info is missing",
    ),
    "a token without": (
        {URL: "http://a", "bearer.auth.credentials.source": "STATIC_TOKEN"},
        r"bearer\.auth\.token is missing",
    ),
    "another token": (
        {URL: "http://a", "bearer.auth.credentials.source": "OAUTHBEARER"},
        r"bearer.auth.credentials.source is STATIC_TOKEN",
    ),
    "a key alone": ({URL: "http://a", "ssl.key.location": "x"}, r"ssl\.certificate\.location is m"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_by_name_and_no_secret_is_told(case):
    given, told = WRONG[case]
    with pytest.raises(ConfigError, match=rf"^registry: .*{told}") as error:
        registry_config(given)
    assert "hunter2" not in str(error.value)
    assert error.value.__cause__ is None


def test_without_a_registry_there_is_none():
    assert RegistrySchemasFactory().open(Connections({}, "")) == NoRegistry()


def test_the_client_that_is_not_installed_is_missed_when_it_is_needed(monkeypatch):
    opened = RegistrySchemasFactory().open(Connections({}, "", registry={URL: "http://a:1"}))
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(RegistryUnavailable, match=r"httpx2.*pip install 'headrace\[registry\]'"):
        opened.schema(1)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'headrace\[registry\]'"):
        require_client()


@pytest.mark.parametrize(("chosen", "then"), [(logging.NOTSET, logging.WARNING), (10, 10)])
def test_how_much_the_client_tells_is_left_to_whoever_chose_it(chosen, then):
    pytest.importorskip("httpx2")
    client, before = logging.getLogger("httpx2"), logging.getLogger("httpx2").level
    opened = RegistrySchemasFactory().open(
        Connections({}, "", registry={URL: "http://127.0.0.1:9"})
    )
    client.setLevel(chosen)
    try:
        with pytest.raises(RegistryUnavailable):
            opened.schema(1)
        assert client.level == then
    finally:
        client.setLevel(before)


def test_a_file_of_certificates_that_is_not_there_is_told_when_it_is_needed():
    told = {URL: "https://127.0.0.1:9", "ssl.ca.location": "/nowhere.pem"}
    opened = RegistrySchemasFactory().open(Connections({}, "", registry=told))
    with pytest.raises(RegistryUnavailable, match="No such file"):
        opened.schema(1)
