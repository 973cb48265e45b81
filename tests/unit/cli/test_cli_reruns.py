"""What an operator is told before records are read again, and what it begins."""

import pytest

from headrace.cli import reruns
from headrace.model.streams import LaneId
from headrace.testing.log_twin import LogTwin, Row


@pytest.fixture(autouse=True)
def log(monkeypatch):
    """Ten records in each partition, of which the streams have read three."""
    log = LogTwin()
    for tenant in ("acme", "bolt"):
        log.create_topic(f"{tenant}.visits", 2)
        for partition in range(2):
            log.append(f"{tenant}.visits", partition, [Row(b"x")] * 10)
    monkeypatch.setattr(reruns, "_log_of", lambda config: log)
    return log


def test_a_dry_run_counts_and_begins_nothing(headrace, store):
    told = headrace("rerun", "acme/score", "--from", "1", "--dry-run")
    assert told.exit_code == 0, told.output
    assert "acme/score partition 0: offsets 1 to 2, at most 2 records" in told.output
    assert "acme/score: at most 4 records" in told.output
    assert len(store.deployments()) == 1


def test_a_rerun_is_begun_where_it_was_told_and_ends_where_the_stream_stood(headrace, store):
    told = headrace("rerun", "acme/score", "--from", "1", "--share", "0.5")
    assert told.exit_code == 0, told.output
    assert "headrace streams remove acme score~1" in told.output
    _, made = store.deployments()
    assert (made.use_case, made.until, made.share) == ("score~1", {0: 3, 1: 3}, 1.0)
    at = {each.lane: each.next_offset for each in store.load_positions()}
    assert at[LaneId("score~1", "acme", 0)] == 1
    assert at[LaneId("score", "acme", 0)] == 3
    assert headrace("streams", "remove", "acme", "score~1").exit_code == 0


def test_all_streams_of_a_tenant_are_meant_by_its_name(headrace, store):
    assert headrace("rerun", "acme", "--from", "earliest").exit_code == 0
    assert [each.use_case for each in store.deployments()] == ["score", "score~1"]
    assert "at most" in headrace("rerun", "acme", "--from", "earliest", "--dry-run").output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nobody", "--from", "earliest"), "has no stream"),
        (("acme/nothing", "--from", "earliest"), "no stream acme/nothing"),
        (("acme/score", "--from", "earliest", "--share", "1"), "above 0 and below 1"),
        (("acme/score", "--from", "latest"), "has read nothing between"),
        (("acme/score", "--from", "99"), "99 is not among them"),
    ],
)
def test_what_cannot_be_rerun_is_told_and_nothing_begins(headrace, store, words, why):
    told = headrace("rerun", *words)
    assert told.exit_code == 2
    assert why in " ".join(told.output.split())
    assert len(store.deployments()) == 1
