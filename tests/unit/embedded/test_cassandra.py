"""What an embedded Cassandra looks at before it begins."""

import pytest

from headrace.embedded import EmbeddedCassandra
from headrace.embedded import cassandra as module
from headrace.errors import CodeNotLoaded, ServerError


def test_without_the_client_no_java_is_begun_and_nothing_is_left(tmp_path, monkeypatch):
    def missing():
        raise CodeNotLoaded("CassandraTable needs cassandra-driver, which is not here")

    begun = []
    monkeypatch.setattr(module, "library", missing, raising=False)
    monkeypatch.setattr("headrace.connectors.cassandra.clients.library", missing)
    monkeypatch.setattr(module, "find_java", lambda: "java")
    monkeypatch.setattr(module, "jars", lambda _: [])
    monkeypatch.setattr(EmbeddedCassandra, "_launch", lambda *_: begun.append(1))
    with pytest.raises(ServerError, match="needs cassandra-driver"):
        EmbeddedCassandra(tmp_path / "node").start()
    assert begun == []
    assert not (tmp_path / "node").exists()
