"""One sink is down for minutes, and nobody else's: its use case waits, the others do not."""

import threading
from collections import Counter

import pytest
from matrix import FULL, ROW, note
from rig import NAMES, TENANTS, Rig, until

from headrace.embedded import EmbeddedSmtp
from headrace.embedded.addresses import free_ports
from headrace.embedded.smtp import kept_files
from headrace.testing.ledger import Found, Place

pytestmark = ROW
DOWN_S = 300.0 if FULL else 20.0
PER_S = 20.0
MAILS = """
from headrace.sinks import Email

@use_case(topic=TOPIC, sink=Email("rig@example.org"), guarantee="at-least-once")
def mails(table, context):
    made = places(table, context).select(["tenant", "topic", "part", "record"])
    texts = [" ".join(map(str, row.values())) for row in made.to_pylist()]
    to = ["you@example.org"] * len(texts)
    return pa.table({{"to": to, "subject": texts, "body": texts, "id": texts}})
"""


@pytest.fixture
def server(tmp_path):
    with EmbeddedSmtp(tmp_path / "mail", port=free_ports(1)[0]) as made:
        yield made


def kept(server):
    """How many mails the server took."""
    return len(kept_files(server.folder))


def found_in(server):
    """What the mails are of, in the order they came."""
    subjects = [message["Subject"].split() for message in server.messages()]
    return [Found(of, Place(topic, int(part), int(at))) for of, topic, part, at in subjects]


def done(rig):
    """How many records each of the rig's own use cases is over."""
    found = Counter()
    with rig.store() as store:
        for position in store.progress.load_positions():
            found[position.lane.use_case] += position.next_offset
    return [found[name] for name in NAMES]


def states_of(rig):
    with rig.store() as store:
        return {stream.state.value for stream in store.registry.streams()}


def test_a_mail_server_that_is_down_holds_up_mails_alone(kafka, server, tmp_path):
    settings = {"smtp_url": server.url}
    rig = Rig(tmp_path / "service", kafka.bootstrap_servers, settings=settings, more=MAILS)
    with rig.sending(PER_S), rig.start() as driver:
        until(lambda: kept(server), driver.tail)
        with driver.watched():
            server.stop()
            rig.kills += 1
            threading.Event().wait(DOWN_S)
            # All that was sent meanwhile has its other effects, and what comes has them too.
            sent = len(rig.ledger)
            until(lambda: all(count >= sent for count in done(rig)), driver.tail)
            until(lambda: all(count >= sent + 100 for count in done(rig)), driver.tail)
            assert kept(server) < sent
            server.start()
            until(lambda: kept(server) >= sent, driver.tail, 300.0)
        driver.drain()
    with rig.start() as driver:
        names = (*NAMES, "mails")
        until(lambda: not rig.behind(names), lambda: (rig.behind(names), driver.tail()), 300.0)
        driver.drain()
    assert states_of(rig) == {"active"}
    row = f"mail server down for {DOWN_S:.0f} s"
    rig.judge(row)
    verdict = rig.ledger.judge(found_in(server))
    note(f"{row}: mails", {"repeats": verdict}, faults=rig.kills, records=len(rig.ledger))
    assert not verdict.lost, str(verdict)
    assert not verdict.foreign, str(verdict)
    assert {mail.tenant for mail in found_in(server)} == set(TENANTS)
