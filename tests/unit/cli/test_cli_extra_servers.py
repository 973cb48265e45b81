"""Servers that `up` starts where it is asked to, or was before."""

from contextlib import ExitStack

import pytest

from headrace.cli import extra_servers
from headrace.cli.extra_servers import with_extras
from headrace.cli.kept_ports import KeptPorts
from headrace.cli.servers import Extra, completed, folder_of, remember
from headrace.errors import ServerError
from headrace.settings import Settings

URL = "cassandra://127.0.0.1:{}/headrace?datacenter=datacenter1"


@pytest.fixture
def started(monkeypatch):
    """Folders and ports of those that were started."""
    found = []

    class Fake:
        starts = True

        def __init__(self, folder, port):
            folder.mkdir(parents=True, exist_ok=True)
            self.url = URL.format(port)
            self.named = (folder.name, port)

        def __enter__(self):
            if not self.starts:
                raise ServerError("no client")
            found.append(self.named)
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(extra_servers, "EmbeddedCassandra", Fake)
    monkeypatch.setattr(extra_servers, "EmbeddedValkey", Fake)
    monkeypatch.setattr(extra_servers, "EmbeddedOpenSearch", Fake)
    monkeypatch.setattr(extra_servers, "EmbeddedSolr", Fake)
    monkeypatch.setattr(extra_servers, "EmbeddedHBase", Fake)
    monkeypatch.setattr(extra_servers, "EmbeddedKinesis", Fake)
    return found


def up(folder, *asked, **said):
    with ExitStack() as stack:
        settings = Settings(module="m.py", **said)
        return with_extras(settings, folder_of(folder), asked, stack, KeptPorts(folder_of(folder)))


def test_nothing_is_started_that_nobody_asked_for(tmp_path, started):
    assert not up(tmp_path).connections
    assert started == []


def test_what_was_asked_for_once_comes_every_time_on_its_port(tmp_path, started):
    remember(folder_of(tmp_path), {"database_url": "sqlite://"})
    first = up(tmp_path, Extra.CASSANDRA).servers()["cassandra"].url
    again = up(tmp_path).servers()["cassandra"].url
    assert first == again == URL.format(started[0][1])
    assert started[0] == started[1]


def test_what_never_started_comes_with_no_later_up_until_it_is_asked_for_again(
    tmp_path, started, monkeypatch
):
    with monkeypatch.context() as broken:
        broken.setattr(extra_servers.EmbeddedCassandra, "starts", False)
        with pytest.raises(ServerError, match="no client"):
            up(tmp_path, Extra.CASSANDRA)
        assert not up(tmp_path).connections
    assert "cassandra" in up(tmp_path, Extra.CASSANDRA).servers()
    assert "cassandra" in up(tmp_path).servers()


def test_other_commands_find_it_beside_the_connections_of_the_file(tmp_path, started):
    up(tmp_path, Extra.CASSANDRA)
    other = {"crm": {"url": "postgresql://db/crm"}}
    found = completed(Settings(module="m.py", connections=other), tmp_path).servers()
    assert found["cassandra"].url == URL.format(started[0][1])
    assert found["crm"].url == "postgresql://db/crm"


def test_what_the_file_names_wins_and_nothing_is_started(tmp_path, started, capsys):
    theirs = {"cassandra": {"url": "cassandra://db/shop?datacenter=dc1"}}
    found = up(tmp_path, Extra.CASSANDRA, connections=theirs)
    assert found.servers()["cassandra"].url == "cassandra://db/shop?datacenter=dc1"
    assert started == []
    assert "Cassandra is not started" in capsys.readouterr().err


def test_each_that_was_asked_for_is_there_beside_the_others(tmp_path, started):
    up(tmp_path, Extra.VALKEY)
    up(tmp_path, Extra.OPENSEARCH)
    names = {"cassandra", "hbase", "kinesis", "opensearch", "solr", "valkey"}
    asked = (Extra.CASSANDRA, Extra.SOLR, Extra.HBASE, Extra.KINESIS)
    assert set(up(tmp_path, *asked).servers()) == names
    assert set(completed(Settings(module="m.py"), tmp_path).servers()) == names
    told = ["valkey", "valkey", "opensearch", "cassandra", "valkey", "opensearch", "solr", "hbase"]
    assert [name for name, _ in started] == [*told, "kinesis"]
    assert started[0] == started[1] == started[4]


def test_whose_client_wants_to_know_who_one_is_is_told(tmp_path, started):
    found = up(tmp_path, Extra.KINESIS, Extra.VALKEY).servers()
    assert found["kinesis"].user
    assert found["kinesis"].password
    assert not found["valkey"].user
