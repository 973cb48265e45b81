"""A Delta table in a real S3 server: writers that are killed, late or beaten, and bad answers."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import delta_app
import duckdb
import pytest
import trustme
from deltalake import DeltaTable as Library
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.connectors.delta import in_store, writer
from headrace.connectors.delta.library import BeatenError, HalfSeenError
from headrace.connectors.delta.upkeep import kept_at
from headrace.connectors.object_stores import stores
from headrace.errors import ConfigError, SinkUnavailable
from headrace.ports import Written
from headrace.sinks import DeltaTable
from own_tls import tls_files
from s3_relay import HALF, LATE, LOST, SILENT, Relay, said
from s3_server import KEY, SECRET
from zombies import Zombies

APP = Path(delta_app.__file__)
STEPS = ("files-half-written", "files-written", "committed", "told")
SINK = delta_app.IN_STORE


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(stores._stores, "held", {})
    monkeypatch.setattr(stores, "_proofs", {})
    monkeypatch.setattr(writer, "_kept", {})


@pytest.fixture
def bucket(s3):
    return s3.make_bucket()


@pytest.fixture
def relay(s3):
    with Relay(s3.port) as made:
        yield made


@pytest.fixture
def url(s3, bucket):
    """Of a store in which the table is made."""
    made = s3.at(bucket).url
    SINK.prepare(delta_app.site(made, "w"))
    return made


@pytest.fixture
def relayed(s3, bucket, relay, url):
    """The same, through the relay."""
    return s3.at(bucket, relay.port).url


def table_of(s3, bucket):
    """As others read it, by the store's own protocol."""
    options = {"region": "us-east-1", "endpoint": s3.endpoint, "allow_http": "true"}
    options |= {"access_key_id": KEY, "secret_access_key": SECRET}
    return Library(f"s3://{bucket}/lake/visits", storage_options=options)


def found(s3, bucket):
    rows = table_of(s3, bucket).to_pyarrow_table(columns=["tenant", "value"])
    return Counter(zip(rows["tenant"].to_pylist(), rows["value"].to_pylist(), strict=True))


def write(url, *effects, wave="w"):
    opened = SINK.open(delta_app.site(url, wave))
    try:
        return opened.write(effects)
    finally:
        opened.close()


def files_of(s3, bucket):
    return [*s3.folder_of(bucket).rglob("part-*.parquet")]


@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_is_killed_in_the_write_leaves_each_row_once(
    s3, bucket, url, tmp_path, step
):
    mark = tmp_path / "stopped"
    with subprocess.Popen([sys.executable, APP, url, "killed", step, mark]) as writing:
        deadline = time.monotonic() + 60
        while not mark.exists():
            assert writing.poll() is None
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)
        writing.kill()
    there = step in ("committed", "told")
    assert bool(found(s3, bucket)) == there
    outcomes = write(url, *delta_app.wave())
    assert [outcome.reached for outcome in outcomes] == [(100,) if there else None] * 2
    every = {(tenant, value) for tenant in ("acme", "bolt") for value in range(100)}
    assert found(s3, bucket) == Counter(every)


def test_processes_that_write_at_once_leave_every_row_once_also_beside_a_merge(s3, bucket, url):
    tenants = ("acme", "bolt")
    writing = [
        subprocess.Popen([sys.executable, APP, url, "many", name], stdout=subprocess.PIPE)
        for name in tenants
    ]
    upkeep = kept_at(delta_app.site(url, "w").connections, "lake", "visits")
    merged = 0
    while any(one.poll() is None for one in writing):
        with suppress(BeatenError, HalfSeenError):
            merged += sum(upkeep.merge(crowd).before for crowd in upkeep.crowds())
        threading.Event().wait(0.2)
    for one in writing:
        assert json.loads(one.communicate()[0]) == [None] * 40
    assert merged > 10
    every = {(tenant, value) for tenant in tenants for value in range(200)}
    assert found(s3, bucket) == Counter(every)


@pytest.mark.parametrize(("seed", "fenced"), [(1, True), (2, True), (3, False)])
def test_each_record_has_its_row_once_whoever_wakes_up_when(s3, bucket, url, seed, fenced):
    def attempt(wave_id, pieces, positions):
        site = replace(delta_app.site(url, wave_id), positions=positions)
        effects = []
        for piece in pieces:
            rows = piece.until_offset - piece.from_offset
            made = delta_app.effect(piece.lane.tenant, piece.from_offset, rows)
            effects.append(replace(made, slices=(piece,)))
        return SINK.open(replace(site, fence=site.fence if fenced else "")).write(effects)

    run = Zombies(attempt, seed, lanes=5)
    run.until_over(10)
    wrong = run.wrong(found(s3, bucket), least=30)
    if fenced:
        assert wrong == []
        assert run.refused > 5, run.outcomes
    else:
        assert wrong, "without marks this test would tell"


def test_a_commit_that_comes_late_finds_its_place_taken(s3, bucket, relayed, relay, monkeypatch):
    monkeypatch.setattr(in_store, "_WAIT_S", 1)
    relay.silence_s, relay.of = 3.0, ("PUT", "/_delta_log/")
    relay.fates.append(LATE)
    error = write(relayed, *delta_app.wave())[0].error
    assert (error.temporary, error.code) == (True, "SinkUnavailable")
    left = files_of(s3, bucket)
    assert len(left) == 2, "the commit may come yet, and names them"
    assert write(relayed, *delta_app.wave()) == [Written()] * 2
    threading.Event().wait(3.0)
    assert found(s3, bucket).most_common(1)[0][1] == 1
    assert len(found(s3, bucket)) == 200


def test_a_commit_that_comes_late_is_found_by_the_next_attempt(
    s3, bucket, relayed, relay, monkeypatch
):
    monkeypatch.setattr(in_store, "_WAIT_S", 1)
    relay.silence_s, relay.of = 2.0, ("PUT", "/_delta_log/")
    relay.fates.append(LATE)
    assert write(relayed, *delta_app.wave())[0].error.temporary
    threading.Event().wait(3.0)
    assert [one.reached for one in write(relayed, *delta_app.wave())] == [(100,)] * 2
    assert sorted(found(s3, bucket).values()) == [1] * 200


@pytest.mark.parametrize("fate", [LOST, HALF])
def test_a_commit_whose_answer_is_lost_or_cut_off_is_found_at_once(
    s3, bucket, relayed, relay, fate
):
    relay.of = ("PUT", "/_delta_log/")
    relay.fates.append(fate)
    assert write(relayed, *delta_app.wave()) == [Written()] * 2
    assert sorted(found(s3, bucket).values()) == [1] * 200


@pytest.mark.parametrize(
    ("fate", "told"),
    [
        (said(503, "SlowDown"), ("SinkUnavailable", "503 SlowDown")),
        (said(400, "ExpiredToken"), ("SinkUnavailable", "the credentials have expired")),
        (said(409, "ConditionalRequestConflict"), ("SinkUnavailable", "others write to it")),
        (said(403, "AccessDenied"), ("TargetMissing", "the key lacks a right")),
    ],
)
@pytest.mark.parametrize("of", [("PUT", "/_delta_log/"), ("PUT", "part-"), ("GET", "")])
def test_what_a_store_says_is_told(s3, relayed, relay, fate, told, of):
    relay.of = of
    relay.fates.append(fate)
    outcomes = write(relayed, *delta_app.wave())
    assert not relay.fates
    if not (fate[0] == 409 and of[1] == "/_delta_log/"):  # who is beaten goes on at once
        assert {one.error.code for one in outcomes} == {told[0]}
        message = outcomes[0].error.message
        assert told[1] in message
        assert not any(text in message for text in (KEY, SECRET, "\x1b"))
        assert write(relayed, *delta_app.wave()) == [Written()] * 2
    assert sorted(found(s3, relayed.split("/")[2]).values()) == [1] * 200


def test_a_store_that_takes_a_name_twice_is_refused_at_deploy(s3, bucket, relay):
    relay.always = said(200, "")
    with pytest.raises(ConfigError, match="If-None-Match"):
        SINK.prepare(delta_app.site(s3.at(bucket, relay.port).url, "w"))


def test_a_store_that_is_silent_at_deploy_is_told(s3, bucket, relay, monkeypatch):
    monkeypatch.setattr(stores, "_ALONE", (1, 1))
    relay.always, relay.silence_s = SILENT, 2.0
    with pytest.raises(SinkUnavailable, match="is not reached"):
        SINK.prepare(delta_app.site(s3.at(bucket, relay.port).url, "w"))


def test_a_process_asks_for_no_more_than_it_has_to(relayed, relay):
    write(relayed, *delta_app.wave())
    relay.methods.clear()
    write(relayed, delta_app.effect("acme", 100, 5), wave="v")
    assert len(relay.methods) <= 14, relay.paths


def test_a_table_that_was_made_again_is_looked_at_anew(s3, bucket, url):
    for number in range(3):
        write(url, delta_app.effect("acme", 5 * number, 5), wave=f"{number}")
    shutil.rmtree(s3.folder_of(bucket) / "lake/visits/_delta_log")
    assert write(url, delta_app.effect("acme", 20, 5), wave="3")[0].error.code == "TargetMissing"
    SINK.prepare(delta_app.site(url, "w"))
    assert write(url, delta_app.effect("acme", 20, 5), wave="3") == [Written()]
    assert found(s3, bucket) == Counter(("acme", value) for value in range(20, 25))


def test_marks_are_found_in_a_checkpoint_when_commits_are_cleaned_away(s3, bucket, url):
    write(url, *delta_app.wave())
    table_of(s3, bucket).create_checkpoint()
    for commit in s3.folder_of(bucket).rglob("*.json"):
        commit.unlink()
    writer._kept.clear()
    assert [one.reached for one in write(url, *delta_app.wave())] == [(100,)] * 2


def test_others_read_it_and_a_newer_version_adds_columns(s3, bucket, url):
    write(url, *delta_app.wave())
    visits = table_of(s3, bucket).to_pyarrow_dataset()
    told = duckdb.sql("SELECT tenant, count(*), sum(value) FROM visits GROUP BY 1 ORDER BY 1")
    assert visits.count_rows() == 200
    assert told.fetchall() == [("acme", 100, 4950), ("bolt", 100, 4950)]
    wider = replace(SINK, schema=delta_app.SCHEMA.append(delta_app.pa.field("more", "string")))
    wider.prepare(delta_app.site(url, "w"))
    assert write(url, delta_app.effect("acme", 100, 1), wave="v") == [Written()]
    assert table_of(s3, bucket).to_pyarrow_table().schema.names == ["tenant", "value", "more"]


def test_what_is_left_over_goes_and_the_file_that_workers_look_for_stays(
    s3, bucket, url, monkeypatch
):
    write(url, *delta_app.wave())
    write(url, delta_app.effect("acme", 100, 5), wave="v")
    upkeep = kept_at(delta_app.site(url, "w").connections, "lake", "visits")
    assert [upkeep.merge(crowd).before for crowd in upkeep.crowds()] == [2]
    monkeypatch.setattr("headrace.connectors.delta.upkeep.LEAST_HOURS", 0)
    assert len(upkeep.vacuum(0, dry_run=False)) == 2
    stores._proofs.clear()
    stores._stores.held.clear()
    writer._kept.clear()
    assert write(url, delta_app.effect("acme", 105, 5), wave="u") == [Written()]
    assert len(found(s3, bucket)) == 210


def test_a_worker_that_sees_another_store_waits(s3, bucket, url):
    elsewhere = s3.at(s3.make_bucket()).url
    error = write(elsewhere, *delta_app.wave())[0].error
    assert (error.code, error.temporary) == ("SinkUnavailable", True)
    assert "which the driver has put there" in error.message


@pytest.mark.parametrize("at", ["lake-{tenant}", "{tenant}"])
def test_one_table_is_not_one_for_each_tenant(at):
    with pytest.raises(ConfigError, match="one for each tenant"):
        DeltaTable("visits", delta_app.SCHEMA, at=at)


def test_a_url_for_each_tenant_and_a_token_of_the_environment_are_refused(s3, bucket, monkeypatch):
    with pytest.raises(ConfigError, match="one for each tenant"):
        SINK.prepare(delta_app.site(s3.at(bucket).url.replace("/lake", "/{tenant}"), "w"))
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of another key")
    with pytest.raises(ConfigError, match="AWS_SESSION_TOKEN"):
        SINK.prepare(delta_app.site(s3.at(bucket).url, "w"))


def test_a_name_that_two_clients_may_read_differently_is_refused():
    with pytest.raises(ConfigError, match="in an object store take"):
        DeltaTable("visits ü", delta_app.SCHEMA, at="lake")


def test_both_clients_believe_an_authority_of_ones_own(s3, bucket, tmp_path):
    authority = trustme.CA()
    files = tls_files(authority, tmp_path, "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_file, files.key_file)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with Relay(s3.port, tls=context) as relay:
        endpoint = f"https://127.0.0.1:{relay.port}"
        url = f"s3://{bucket}/lake?region=us-east-1&endpoint={endpoint}&ca={tmp_path}/ca.pem"
        SINK.prepare(delta_app.site(url, "w"))
        assert write(url, *delta_app.wave()) == [Written()] * 2
        error = write(url.partition("&ca=")[0], *delta_app.wave(), wave="v")[0].error
    assert (error.temporary, "certificate is not believed" in error.message) == (True, True)
    assert len(found(s3, bucket)) == 200


def test_a_table_in_a_store_is_kept_fit_by_command(s3, bucket, url, tmp_path):
    for number in range(2):
        write(url, delta_app.effect("acme", 5 * number, 5), wave=f"{number}")
    config = tmp_path / "headrace.yaml"
    config.write_text(
        f"module: use_cases.py\ndatabase_url: sqlite:///{tmp_path}/store.db\nconnections:\n"
        f"  lake: {{url: '{url}', user: {KEY}, password: {SECRET}}}\n"
    )

    def headrace(*words):
        done = CliRunner().invoke(app, ["tables", *words, "--config", str(config)])
        return " ".join(done.output.split())

    assert "1 partition, 2 files merged into 1" in headrace("optimize", "visits", "--at", "lake")
    assert "0 files removed" in headrace("vacuum", "visits", "--at", "lake")
    assert "there is no Delta table" in headrace("optimize", "visit", "--at", "lake")
    assert "names lake" in headrace("optimize", "visits", "--at", "sea")
    assert len(found(s3, bucket)) == 10
