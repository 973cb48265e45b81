"""A target takes an effect and its answer is lost; and slices that are bad in two ways at once.

Whoever does not know whether an effect is there has to decide: with at-least-once it is made again,
with at-most-once it is given up. Real SQL tables and a real mail server; a driver in this process.
"""

import email
import email.policy
import random
import sqlite3
from contextlib import closing
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from aiosmtpd.controller import Controller
from in_process import RECORDS, SLICE_RECORDS, TENANTS, World, judged, keep
from matrix import note

from headrace.errors import OutcomeUnknown
from headrace.model.streams import BadRecordPolicy
from headrace.ports import Server
from headrace.sinks import Email, SqlTable
from headrace.store import database, open_store
from headrace.testing.ledger import Place

SEEN = SqlTable("seen", {"tenant": "text", "place": "bigint"})
RECIPES = {"transacts": "exactly-once", "repeats": "at-least-once", "claims": "at-most-once"}
#: what a lost answer may cost: the slices of the wave, one for each tenant
IN_FLIGHT = SLICE_RECORDS * len(TENANTS)


def hold_against(verdict, name, faults):
    """What a guarantee promises, and no more than a wave for each fault where it allows any."""
    assert not verdict.foreign, str(verdict)
    assert name == "repeats" or not verdict.twice, (name, str(verdict))
    assert name == "claims" or not verdict.lost, (name, str(verdict))
    assert len(verdict.twice) <= faults * IN_FLIGHT, (name, str(verdict))
    assert len(verdict.lost) <= faults * IN_FLIGHT, (name, str(verdict))


def tell(row, verdicts, faults):
    note(row, verdicts, faults=faults, records=RECORDS * len(TENANTS) * len(verdicts))


# the answer to COMMIT


def rows_in(store):
    with store.positions.begin() as connection:
        # In PostgreSQL each connection fills pages of its own; here there is one at a time.
        place = "rowid" if connection.dialect.name == "sqlite" else "xmin::text::bigint, ctid"
        asked = f"SELECT tenant, place FROM seen ORDER BY {place}"
        return [tuple(row) for row in connection.exec_driver_sql(asked)]


def test_the_answer_to_commit_is_lost_in_sqlite(tmp_path, monkeypatch):
    commit, commits, faults, found = database.commit, [], 0, {}
    # Not each third one: a driver that makes three to begin with would never be heard.
    chance = random.Random(3)

    def unheard(transaction, where):
        commit(transaction, where)
        commits.append(chance.random() < 1 / 3)
        if commits[-1]:
            raise OutcomeUnknown("the answer to a commit was lost")

    for name, guarantee in RECIPES.items():
        url = f"sqlite:///{tmp_path}/{name}.db"
        with closing(open_store(url)) as store, closing(open_store(url)) as watch:
            made = World(store, watch, tmp_path, SEEN, guarantee)
            commits.clear()
            with monkeypatch.context() as patch:
                patch.setattr(database, "commit", unheard)
                made.until_done()
            found[name] = judged(rows_in(watch))
        assert len(commits) > 5
        faults += sum(commits)
        hold_against(found[name], name, sum(commits))
    assert found["claims"].lost, "no answer of the sink was lost"
    tell("answer to COMMIT lost, SQLite", found, faults)


def test_the_answer_to_commit_is_lost_in_postgresql(proxy, new_database):
    chance, faults, found = random.Random(5), 0, {}
    for name, guarantee in RECIPES.items():
        straight, proxied = new_database()
        with closing(open_store(proxied)) as store, closing(open_store(straight)) as watch:
            made = World(store, watch, None, SEEN, guarantee)
            before = proxy.cuts
            proxy.fates.extend(chance.choices([None, "answer", "request"], [5, 1, 1], k=600))
            made.until_done()
            proxy.fates.clear()
            found[name] = judged(rows_in(watch))
        cuts = proxy.cuts - before
        assert cuts > 3
        faults += cuts
        hold_against(found[name], name, cuts)
    assert found["claims"].lost, "no commit of the sink was cut"
    tell("connection to PostgreSQL cut at COMMIT", found, faults)


ELSEWHERE = replace(SEEN, at="history")


def rows_at(url):
    with psycopg.connect(url) as connection:
        asked = "SELECT tenant, place FROM seen ORDER BY xmin::text::bigint, ctid"
        return connection.execute(asked).fetchall()


def test_the_answer_to_commit_is_lost_in_a_database_that_is_not_the_stores(
    proxy, new_database, tmp_path
):
    chance, faults, found = random.Random(5), 0, {}
    for name, guarantee in RECIPES.items():
        straight, proxied = new_database()
        url = f"sqlite:///{tmp_path}/{name}.db"
        with closing(open_store(url)) as store, closing(open_store(url)) as watch:
            servers = {"history": Server(proxied)}
            made = World(store, watch, tmp_path, ELSEWHERE, guarantee, servers=servers)
            before = proxy.cuts
            proxy.fates.extend(chance.choices([None, "answer", "request"], [5, 1, 1], k=600))
            made.until_done()
            proxy.fates.clear()
            # What at-most-once gives up is kept as a failure that is over.
            assert name == "claims" or made.watch.failures.every() == []
            assert made.watch.progress.pending_intents() == []
            found[name] = judged(rows_at(straight))
        cuts = proxy.cuts - before
        assert cuts > 1
        faults += cuts
        hold_against(found[name], name, cuts)
    assert found["claims"].lost, "no commit of the sink was cut"
    tell("connection to another database cut at COMMIT", found, faults)


# the answer to a mail


class Postman:
    """Takes every mail, and hangs up after some of them without a word."""

    def __init__(self):
        self.taken = []
        self.faults = 0

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - aiosmtpd's name
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        tenant, place = mail["Subject"].split()
        self.taken.append((tenant, int(place)))
        if len(self.taken) % 9 == 0:
            self.faults += 1
            server.transport.abort()
        return "250 OK"


class AnyPort(Controller):
    """Takes a port that is free and tells which."""

    def _trigger_server(self):
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


def mails(table, context):
    subjects = [f"{context.tenant} {offset}" for offset in table["offset"].to_pylist()]
    columns = {"to": ["you@example.org"] * len(subjects), "subject": subjects}
    return pa.table({**columns, "body": subjects, "id": subjects})


def test_the_answer_to_a_mail_is_lost(tmp_path):
    faults, found = 0, {}
    for name in ("repeats", "claims"):
        postman = Postman()
        server = AnyPort(postman, hostname="127.0.0.1", port=0)
        server.start()
        url = f"sqlite:///{tmp_path}/{name}.db"
        with closing(open_store(url)) as store, closing(open_store(url)) as watch:
            made = World(
                store,
                watch,
                tmp_path,
                Email("news@example.org"),
                RECIPES[name],
                handler=mails,
                smtp_url=f"smtp://127.0.0.1:{server.port}",
            )
            made.until_done()
        server.stop()
        assert postman.faults > 3
        faults += postman.faults
        found[name] = judged(postman.taken)
        hold_against(found[name], name, postman.faults)
    # One mail more for each: the one that was in doubt.
    assert len(found["repeats"].twice) <= faults
    tell("answer to a mail lost", found, faults)


# records that are bad in two ways

#: offsets that the sink refuses, and that the handler raises at, in every slice and some batches
REFUSED, RAISES = range(1, RECORDS, 10), range(3, RECORDS, 20)


def two_kinds(table, context):
    offsets = table["offset"].to_pylist()
    if not set(RAISES).isdisjoint(offsets):
        raise ValueError("cannot read this")
    places = [None if offset in REFUSED else offset for offset in offsets]
    return keep(table, context).set_column(1, "place", pa.array(places, pa.int64()))


@pytest.mark.parametrize("batch", [1, 5, 6])
def test_two_kinds_of_bad_record_in_one_slice_of_several_batches(tmp_path, monkeypatch, batch):
    monkeypatch.setattr("headrace.spark.task.BATCH_RECORDS", batch)
    sink, found = SqlTable("seen", SEEN.columns, key=("tenant", "place")), {}
    given_up = {Place(f"{who}.visits", 0, at) for who in TENANTS for at in (*REFUSED, *RAISES)}
    for name in ("transacts", "repeats"):
        url = f"sqlite:///{tmp_path}/{name}.db"
        with closing(open_store(url)) as store, closing(open_store(url)) as watch:
            made = World(
                store,
                watch,
                tmp_path,
                sink,
                RECIPES[name],
                handler=two_kinds,
                bad_record=BadRecordPolicy.DEAD_LETTER,
                retries=1,
                slice_records=RECORDS,
            )
            made.until_done()
            verdict = judged(rows_in(watch))
        letters = {
            Place(letter.slice.topic, 0, letter.error.offset) for letter in made.letters.letters
        }
        assert letters == given_up
        assert set(verdict.lost) == given_up
        assert not verdict.twice, str(verdict)
        # What was given up is not lost: it is a dead letter.
        found[name] = replace(verdict, lost=tuple(set(verdict.lost) - letters))
    tell("two kinds of bad record in one slice", found, len(given_up) * len(found))


def refused_elsewhere(table, context):
    places = [None if at in REFUSED else at for at in table["offset"].to_pylist()]
    return keep(table, context).set_column(1, "place", pa.array(places, pa.int64()))


def test_records_that_a_database_elsewhere_refuses_are_set_aside_and_the_others_are_there(tmp_path):
    sink = replace(ELSEWHERE, key=("tenant", "place"))
    url, there = (f"sqlite:///{tmp_path}/{name}.db" for name in ("store", "history"))
    with closing(open_store(url)) as store, closing(open_store(url)) as watch:
        made = World(
            store,
            watch,
            tmp_path,
            sink,
            "exactly-once",
            handler=refused_elsewhere,
            servers={"history": Server(there)},
            bad_record=BadRecordPolicy.DEAD_LETTER,
        )
        made.until_done()
    with closing(sqlite3.connect(tmp_path / "history.db")) as connection:
        verdict = judged(connection.execute("SELECT tenant, place FROM seen ORDER BY rowid"))
    letters = {Place(letter.slice.topic, 0, letter.error.offset) for letter in made.letters.letters}
    assert letters == {Place(f"{who}.visits", 0, at) for who in TENANTS for at in REFUSED}
    assert (set(verdict.lost), verdict.twice) == (letters, ())
