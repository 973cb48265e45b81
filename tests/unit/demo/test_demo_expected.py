"""The demo's input and its independent computation, and that the report catches planted faults."""

from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.demo.avro_visits import VERSIONS, version_of
from headrace.demo.expected import came_by, expected, points_of
from headrace.demo.poster import POSTED
from headrace.demo.report import Check, Found, checks
from headrace.demo.scenario import EVENTS, Journal, due
from headrace.demo.use_cases import POINTS, WATCH_LIST
from headrace.demo.visits import GUEST, PARTITIONS, TENANTS, Visit, parse, read_visits
from headrace.errors import ConfigError


@pytest.fixture(scope="module")
def visits() -> list[Visit]:
    return list(read_visits())


def test_every_line_of_the_real_log_is_a_visit_of_a_known_tenant(visits):
    assert len(visits) == 10_000
    assert {visit.tenant for visit in visits} == set(TENANTS)
    assert {visit.partition for visit in visits} == set(range(PARTITIONS))


def test_all_visits_of_a_lead_share_a_partition(visits):
    by_lead = {}
    for visit in visits:
        by_lead.setdefault(visit.lead, set()).add(visit.partition)
    assert all(len(partitions) == 1 for partitions in by_lead.values())


def test_a_line_that_is_none_is_refused_by_its_number():
    with pytest.raises(ValueError, match="line 7"):
        parse(7, "not a log line")


def test_wrong_order_gives_another_score(visits):
    right = expected(visits, {}).scores
    wrong = expected(reversed(visits), {}).scores
    assert right != wrong
    assert right.keys() == wrong.keys()


def test_the_two_tellings_of_the_points_agree(visits):
    pages = {visit.path.split("?")[0] for visit in visits}
    told = {
        page: next((p for end, p in POINTS.items() if page.endswith(end)), 10) for page in pages
    }
    assert {page: points_of(page) for page in pages} == told


def test_events_are_due_in_order_and_only_once():
    assert [event.action for event in due(0.0, [])] == ["add"] * len([*TENANTS[1:], GUEST])
    assert due(1.0, [event.name for event in EVENTS]) == []
    assert [event.name for event in due(0.4, [event.name for event in due(0.0, [])])] == [
        "late",
        "pause",
    ]


def test_the_journal_survives_and_a_broken_one_says_what_to_do(tmp_path):
    path = tmp_path / "demo" / "journal.json"
    Journal(path, ["late"]).write()
    assert Journal.read(path).done == ["late"]
    path.write_text("{half")
    with pytest.raises(ConfigError, match="--fresh"):
        Journal.read(path)


# --- the report catches what is planted ------------------------------------------------------


@pytest.fixture(scope="module")
def right(visits, tmp_path_factory) -> Found:
    """What a faultless run leaves behind."""
    folder = tmp_path_factory.mktemp("warehouse")
    should = expected(visits, {})
    ends = {lane: len(places) for lane, places in should.lanes.items()}
    files = []
    for (tenant, partition), lane in sorted(should.lanes.items()):
        middle = len(lane) // 2
        for start, until in ((0, middle), (middle, len(lane))):
            files.append(write(folder, (tenant, partition), start, lane[start:until]))
    positions = {name: dict(ends) for name in ("react", "score", "replicate")}
    mails = [
        mail(number, tenant, subject)
        for number, (tenant, subject) in enumerate(
            key for key, count in should.mails.items() for _ in range(count)
        )
    ]
    return Found(ends, positions, should.scores, mails, files, {"100001": 7})


def write(folder: Path, lane, start: int, visits: list[Visit]) -> Path:
    tenant, partition = lane
    home = folder / f"tenant={tenant}"
    home.mkdir(exist_ok=True)
    until = start + len(visits)
    path = home / f"{tenant}.visits-{partition}-{start:020}-{until:020}.parquet"
    methods = [None if came_by(visit) == "version 1" else visit.method for visit in visits]
    rows = {"line": [visit.line for visit in visits], "method": pa.array(methods, pa.string())}
    pq.write_table(pa.table(rows), path)
    return path


def mail(number: int, tenant: str, subject: str) -> EmailMessage:
    made = EmailMessage()
    made["Message-ID"] = f"<{number}@headrace>"
    made["To"] = f"sales@{tenant}.example.com"
    made["Subject"] = subject
    return made


def failed(visits, found) -> set[str]:
    return {check.name for check in checks(visits, found) if not check.passed}


def test_a_faultless_run_passes(visits, right):
    assert failed(visits, right) == set()


def test_a_lost_visit_is_caught(visits, right):
    lane, end = next(iter(right.ends.items()))
    found = replace(right, ends={**right.ends, lane: end - 1})
    assert "visits in Kafka, by lane" in failed(visits, found)


def test_a_lane_not_read_to_its_end_is_caught(visits, right):
    score = dict(right.positions["score"])
    score["blog", 0] -= 1
    found = replace(right, positions={**right.positions, "score": score})
    assert failed(visits, found) == {"lanes read to their end"}


def test_a_visit_scored_twice_is_caught(visits, right):
    key, (score, count) = next(iter(right.scores.items()))
    found = replace(right, scores={**right.scores, key: (score, count + 1)})
    assert failed(visits, found) == {"scores (order and count both show in them)"}


def test_scores_in_another_order_are_caught(visits, right):
    found = replace(right, scores=expected(reversed(visits), {}).scores)
    assert failed(visits, found) == {"scores (order and count both show in them)"}


def test_a_lost_a_foreign_and_a_doubled_mail_are_told_apart(visits, right):
    assert failed(visits, replace(right, mails=right.mails[1:])) == {"mails to sales"}
    foreign = [*right.mails, mail(10**6, "blog", "who are you")]
    assert failed(visits, replace(right, mails=foreign)) == {"mails to sales"}
    second_effect = [*right.mails, mail(10**6, "blog", right.mails[0]["Subject"])]
    assert failed(visits, replace(right, mails=second_effect)) == {"mails to sales"}
    redelivered = [*right.mails, right.mails[0]]
    assert failed(visits, replace(right, mails=redelivered)) == set()


def test_a_missing_a_doubled_and_a_reordered_file_are_caught(visits, right, tmp_path):
    assert failed(visits, replace(right, files=right.files[1:])) >= {"visits in files, in order"}
    first = right.files[0]
    rows = pq.read_table(first, partitioning=None)
    shorter = tmp_path / first.parent.name / first.name
    shorter.parent.mkdir()
    pq.write_table(rows.take(list(reversed(range(rows.num_rows)))), shorter)
    swapped = replace(right, files=[shorter, *right.files[1:]])
    assert failed(visits, swapped) == {"visits in files, in order"}
    overlap = first.with_name(first.name.replace(f"{0:020}", f"{1:020}", 1))
    both = replace(right, files=[*right.files, overlap])
    pq.write_table(rows, overlap)
    assert "slices in files, end to end" in failed(visits, both)
    overlap.unlink()


def test_places_of_any_width_in_names_of_files_are_counted_by_their_log(visits, right, tmp_path):
    def renamed(path: Path) -> Path:
        name, lane, start, until = path.name.removesuffix(".parquet").rsplit("-", 3)
        wide = [f"{int(place)}{'0' * 60}".zfill(20) for place in (start, until)]
        home = tmp_path / path.parent.name
        home.mkdir(exist_ok=True)
        copy = home / f"{'-'.join([name, lane, *wide])}.parquet"
        copy.write_bytes(path.read_bytes())
        return copy

    def reached(_lane, place):
        return place // 10**60

    found = replace(right, files=[renamed(path) for path in right.files], reached=reached)
    assert failed(visits, found) == set()
    assert "slices in files, end to end" in failed(
        visits, replace(found, reached=lambda _lane, place: max(0, place // 10**60 - 1))
    )


def test_what_a_log_itself_has_to_tell_is_a_check(visits, right):
    found = replace(right, more=(Check("shards", "7", "6"),))
    assert failed(visits, found) == {"shards"}


def test_the_watch_list_is_told_twice_alike(visits):
    watched = {visit.path.split("?")[0] for visit in visits} & WATCH_LIST
    assert watched == WATCH_LIST


def test_a_visit_that_was_read_as_one_of_another_version_is_caught(visits, right, tmp_path):
    for old in right.files:
        rows = pq.read_table(old, partitioning=None)
        if rows["method"].null_count:
            break
    else:
        pytest.fail("some visits are of the first version")
    wrong = tmp_path / old.parent.name / old.name
    wrong.parent.mkdir()
    methods = pa.array(["GET"] * rows.num_rows, pa.string())
    pq.write_table(rows.set_column(1, "method", methods), wrong)
    files = [wrong if file is old else file for file in right.files]
    caught = {"visits in files, in order", "visits by the version of their schema"}
    assert failed(visits, replace(right, files=files)) == caught


def test_the_two_tellings_of_the_version_that_a_visit_comes_by_agree(visits):
    for visit in visits:
        version = VERSIONS[-1] if visit.tenant in POSTED else version_of(visit)
        assert came_by(visit) == f"version {version}"
