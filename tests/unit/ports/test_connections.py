"""Servers by their names, and what of them is never shown."""

import pytest

from headrace.errors import ConfigError
from headrace.ports import Connections, Server

HISTORY = Server("postgresql://u:hunter2@db/x", "me", "hunter3")


def test_no_address_user_or_secret_shows():
    connections = Connections({}, "", servers={"history": HISTORY}, seal_key=b"hunter4")
    shown = repr(connections) + repr(HISTORY) + connections.installation
    assert not [secret for secret in ("hunter", "postgresql", "me'") if secret in shown]
    assert connections.server("history") == HISTORY


@pytest.mark.parametrize(
    ("names", "known"), [((), "names none"), (("b", "a"), "names a, b; add it there")]
)
def test_an_operator_is_told_an_unknown_name_with_those_that_there_are(names, known):
    connections = Connections({}, "", servers=dict.fromkeys(names, HISTORY))
    with pytest.raises(ConfigError, match=f"no connection 'history': .*{known}") as refused:
        connections.server("history", telling=True)
    assert "hunter" not in str(refused.value)


def test_who_may_be_a_tenant_is_told_no_name_but_the_one_that_lacks():
    connections = Connections({}, "", servers={"crm-bolt": HISTORY})
    with pytest.raises(ConfigError, match=r"no connection 'crm-acme': .*add it there") as refused:
        connections.server("crm-acme")
    assert "bolt" not in str(refused.value)


def test_an_installation_is_known_by_its_secret_alone():
    def made(key):
        return Connections({}, "", seal_key=key).installation

    assert made(b"") == ""
    assert made(b"one") == made(b"one") != made(b"two")
