"""Where a cluster is, as the YAML file says it."""

import pytest

from headrace.connectors.cassandra.addresses import address_of
from headrace.connectors.cassandra.servers import cluster_of
from headrace.errors import ConfigError, TargetMissing
from headrace.ports import Connections, Server


def test_hosts_have_the_port_that_is_said_last_unless_they_have_their_own():
    said = "cassandra://a,b:9142,c:9143/shop?datacenter=dc1"
    found = address_of(Server(said), "history")
    assert found.hosts == (("a", 9143), ("b", 9142), ("c", 9143))
    assert (found.keyspace, found.datacenter, found.tls) == ("shop", "dc1", False)
    alone = address_of(Server("cassandra://a/shop?datacenter=dc1"), "history")
    assert alone.hosts == (("a", 9042),)


def test_credentials_apart_from_the_url_win_and_none_shows():
    url = "cassandra://me:a%40b@h/shop?datacenter=dc1"
    found = address_of(Server(url), "history")
    assert (found.user, found.password) == ("me", "a@b")
    apart = address_of(Server(url, "you", "hunter2"), "history")
    assert (apart.user, apart.password) == ("you", "hunter2")
    assert "hunter2" not in repr(apart)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://h/shop", "no Cassandra"),
        ("cassandra://h/shop", "datacenter"),
        ("cassandra://h?datacenter=dc1", "keyspace"),
        ("cassandra:///shop?datacenter=dc1", "hosts"),
        ("cassandra://h:99999/shop?datacenter=dc1", "port"),
        ("cassandra://h,,b/shop?datacenter=dc1", "host"),
        ("cassandra://h/shop?datacenter=dc1&colour=blue", "'colour' is none of"),
        ("cassandra://h/shop?datacenter=dc1&tls=maybe", "tls is on or off"),
        ('cassandra://h/sh"op?datacenter=dc1', "keyspace"),
    ],
)
def test_an_address_that_is_none_is_told_without_what_is_in_it(url, said):
    with pytest.raises(ConfigError, match=said) as told:
        address_of(Server(url, password="hunter2"), "history")
    assert "connection history" in str(told.value)
    assert "hunter2" not in str(told.value)


def test_files_of_tls_say_that_there_is_tls_and_one_that_is_not_there_is_told():
    url = "cassandra://127.0.0.1:1/shop?datacenter=dc1&ca_file=/nowhere/ca.pem"
    assert address_of(Server(url), "history").tls
    cluster = cluster_of(Connections({}, "", servers={"history": Server(url)}), "history")
    with pytest.raises(TargetMissing, match="a file of TLS"):
        cluster.session()


def test_a_process_has_one_client_for_each_cluster():
    servers = {n: Server(f"cassandra://{n}/shop?datacenter=dc1") for n in "ab"}
    connections = Connections({}, "", servers=servers)
    assert cluster_of(connections, "a") is cluster_of(connections, "a")
    assert cluster_of(connections, "a") is not cluster_of(connections, "b")
