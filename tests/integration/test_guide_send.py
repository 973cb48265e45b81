"""The guide's program that sends records, where its topic is not there yet."""

import sys
import time

import pytest

from headrace.cli.init import text_of
from headrace.cli.servers import folder_of, remember

pytestmark = pytest.mark.kafka


def test_a_topic_that_is_missing_is_told_within_seconds_with_what_makes_it(
    tmp_path, monkeypatch, kafka
):
    monkeypatch.setattr(sys, "argv", ["send.py", f"nobody{time.time_ns()}"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.jsonl").write_text(text_of("visits.jsonl"))
    remember(folder_of(tmp_path), {"bootstrap.servers": kafka.bootstrap_servers})
    began_s = time.monotonic()
    with pytest.raises(SystemExit, match=r"3 not sent: .*nknown topic.*'headrace topics create"):
        exec(text_of("send.py"), {})
    assert time.monotonic() - began_s < 30
