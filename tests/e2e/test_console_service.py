"""The console whole: a browser, the doors, the control API and a real store; Kafka is a fake.

What a person does on a page is looked for where it matters: in the store, in the dead letters, in
the audit log.
"""

import dataclasses
import re
import time
from contextlib import closing, nullcontext

import pytest
from pydantic import SecretStr

from headrace.connectors.kafka.redrive import Redriven
from headrace.console.opening import console_app, console_listening, console_serving, login_link
from headrace.doors.keys import new_key
from headrace.model.credentials import Role
from headrace.model.lane_names import number_of
from headrace.model.receipts import SliceError
from headrace.model.records import Deployment, Failure, FailureState, LaneStart
from headrace.model.statistics import (
    BinFigures,
    LaneFigures,
    Outcome,
    Point,
    Report,
    Spread,
    StreamFigures,
    UseCaseFigures,
    WaveFigures,
)
from headrace.model.streams import LaneId, Slice, State, StreamId, Tenant
from headrace.process.clock import SystemClock
from headrace.settings import Settings
from headrace.settings.console import ConsoleSettings
from headrace.store import open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.log_fake import MemoryLog, Row

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SECRET = "0123456789abcdef0123456789abcdef"
DELAY = Spread(10, 0.1, 0.2, 0.4, 0.5, 0.9)
PAGES = ("tenants", "tenants/acme", "waves", "use-cases", "alerts", "keys", "audit")


class Tools:
    """Kafka in memory."""

    def __init__(self):
        self.kafka, self.kept = MemoryLog(), MemoryDeadLetters()
        for tenant in ("acme", "bolt"):
            self.kafka.create_topic(f"{tenant}.visits", 2)
            for partition in (0, 1):
                self.kafka.append(f"{tenant}.visits", partition, [Row(b"{}")] * 9)

    def log(self):
        return nullcontext(self.kafka)

    def letters(self):
        return nullcontext(self.kept)

    def send_back(self, stream, topic, *, generation, limit, dry_run):
        return Redriven(min(limit, 7), (), 7 - min(limit, 7))


def figures(tenant, now_s, **more):
    stream = StreamId("score", tenant)
    lanes = (
        LaneFigures("acme.visits[0]", 3, 9, lag_records=6),
        LaneFigures("acme.visits[1]", 3, 9),
    )
    given = {
        "state": "active", "lag_records": 4, "lag_s": 1.5, "in_per_s": 2.0, "out_per_s": 3.0,
        "delay": DELAY, "throttled": False, "task_share": 0.25, "records_total": 100,
        "dead_letters_total": 1, "lost_records_total": 0, "wave": "w1", "note": "", "lanes": lanes,
    }  # fmt: skip
    return StreamFigures(stream, f"{tenant}.visits", **given | more)


class Service:
    """A console on a store with the tenants acme and bolt, and a driver that tells of them."""

    def __init__(self, store, tools, url):
        self.store, self.tools, self.url = store, tools, url

    def key(self, role, tenant=None):
        text, key = new_key(role, tenant, f"a {role}", SECRET.encode(), time.time())
        self.store.keys.add(key)
        return text, key

    def tell(self, **more):
        """Publish what the driver would."""
        now_s = time.time()
        bins = (BinFigures(0, ("acme",), 1, 5, Outcome.YIELDED),)
        wave = WaveFigures("w1", "score", now_s - 9, now_s - 4, bins)
        of_score = UseCaseFigures("score", 3, DELAY, DELAY, DELAY, 5.0, 50.0, None, None)
        streams = (figures("acme", now_s, **more), figures("bolt", now_s))
        spark = "http://127.0.0.1:4040"
        told = Report("one", now_s, now_s - 60, 2, 3, 1, 1, spark, streams, (of_score,), (wave,))
        self.store.statistics.publish(told)

    def fail(self, **error):
        """Stop partition 0 of acme at offset 3."""
        piece = Slice(LaneId("score", "acme", "acme.visits[0]"), "acme.visits", 3, 9, 1, records=6)
        given = {"code": "BadRecord", "message": "no JSON", "offset": 3, "raw_value": b"\xff{"}
        wrong = SliceError(temporary=False, **given | error)
        behind = None if wrong.offset is None else wrong.offset + 1
        return self.store.failures.keep([Failure(piece, wrong, time.time(), 4, behind=behind)])[0]

    def positions(self):
        stream = StreamId("score", "acme")
        return {
            number_of(position.lane.name): position.next_offset
            for position in self.store.progress.load_positions([stream])
        }

    def tenant(self, name):
        return next(tenant for tenant in self.store.registry.tenants() if tenant.name == name)


@pytest.fixture
def service(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET", SECRET)
    database = f"sqlite:///{tmp_path / 'headrace.db'}"
    settings = Settings(
        module="none.py", database_url=SecretStr(database), console=ConsoleSettings(port=0)
    )
    tools = Tools()
    with closing(open_store(database)) as store:
        store.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
        for tenant, topic_id in (("acme", "topic-1"), ("bolt", "topic-2")):
            store.registry.add_tenant(Tenant(tenant))
            store.progress.start_lanes(
                [
                    LaneStart(
                        StreamId("score", tenant),
                        topic_id,
                        {f"{tenant}.visits[0]": 3, f"{tenant}.visits[1]": 3},
                    )
                ]
            )
        app = console_app(settings, store, tools, SystemClock())
        with console_serving(app, console_listening(settings)) as url:
            made = Service(store, tools, url)
            made.tell()
            yield made


@pytest.fixture
def operator(service, visit):
    """A browser into which an operator logged in by link."""
    somebody = visit(service.url)
    somebody.page.goto(login_link(service.url, service.key(Role.OPERATOR)[0]))
    somebody.page.get_by_role("link", name="acme").wait_for()
    return somebody


def press(somebody, button, confirm):
    """Press a button on the page, then the one in its dialog; returns the dialog."""
    somebody.page.get_by_role("button", name=button, exact=True).first.click()
    dialog = somebody.page.get_by_role("dialog")
    dialog.get_by_role("button", name=confirm).click()
    return dialog


def test_every_page_opens_without_errors(service, operator):
    now_s = time.time()
    minute = now_s // 60 * 60 - 120
    point = Point(StreamId("score", "acme"), minute, 60.0, 4, 1.5, 120, 118, 2.0, DELAY)
    service.store.statistics.keep([point, dataclasses.replace(point, from_s=minute + 60)])
    service.fail()
    for name in PAGES:
        operator.go(name)
        operator.until("!document.querySelector('.is-loading')")
        assert operator.page.get_by_role("alert").count() == 0, name
    assert operator.troubles == []


def test_what_a_driver_tells_is_seen_without_asking(service, operator):
    row = operator.page.get_by_role("row", name=re.compile("^acme"))
    row.get_by_text("active").wait_for()
    service.tell(lag_records=4321, state="throttled")
    row.get_by_text("4,321").wait_for()
    row.get_by_text("throttled").wait_for()


def test_a_tenant_is_suspended_and_resumed_and_both_are_noted(service, operator):
    operator.go("tenants/acme")
    press(operator, "Suspend tenant", "Suspend")
    operator.page.get_by_role("button", name="Resume tenant").wait_for()
    assert service.tenant("acme").state is State.SUSPENDED
    press(operator, "Resume tenant", "Resume")
    operator.page.get_by_role("button", name="Suspend tenant").wait_for()
    assert service.tenant("acme").state is State.ACTIVE
    operator.go("audit")
    for action in ("suspend", "resume"):
        operator.page.get_by_role("cell", name=f"POST /v1/tenants/acme/{action}").wait_for()
    assert operator.troubles == []


def test_limits_are_changed_and_the_others_stay(service, operator):
    operator.go("tenants/acme")
    operator.page.get_by_role("button", name="Limits…").click()
    dialog = operator.page.get_by_role("dialog")
    dialog.get_by_label("Bytes a second, at most").fill("5000")
    dialog.get_by_role("button", name="Save").click()
    operator.page.get_by_text("at most 5,000 B/s").wait_for()
    tenant = service.tenant("acme")
    assert (tenant.weight, tenant.throttle.records_per_s, tenant.throttle.bytes_per_s) == (
        1,
        None,
        5000,
    )


def test_a_skipped_record_is_in_the_dead_letters_and_its_lane_goes_on(service, operator):
    number = service.fail()
    operator.go("tenants/acme")
    operator.page.get_by_role("button", name="Show record and stack").click()
    value = operator.page.locator("pre[aria-label=value]")
    assert value.inner_text().startswith("000000  ff 7b")
    dialog = press(operator, "Skip…", "Skip")
    dialog.get_by_text("The lane goes on at offset 4").wait_for()
    assert service.positions() == {0: 4, 1: 3}
    assert [letter.error.offset for letter in service.tools.kept.letters] == [3]
    assert service.store.failures.one(number).state is FailureState.SKIPPED


def test_a_retried_record_is_read_again(service, operator):
    number = service.fail()
    operator.go("tenants/acme")
    press(operator, "Retry…", "Retry").get_by_text("The lane goes on at offset 3").wait_for()
    assert service.store.failures.one(number).state is FailureState.RETRIED
    assert service.positions() == {0: 3, 1: 3}


def test_a_refusal_of_the_store_reaches_the_person(service, operator):
    number = service.fail()
    operator.go("tenants/acme")
    operator.page.get_by_role("button", name="Skip…").click()
    service.store.failures.retry(number)
    dialog = operator.page.get_by_role("dialog")
    dialog.get_by_role("button", name="Skip").click()
    dialog.get_by_text("is not open any more").wait_for()
    assert service.tools.kept.letters == []


def test_dead_letters_are_counted_then_sent_back(operator):
    operator.go("tenants/acme")
    operator.page.get_by_role("button", name="Redrive…").click()
    dialog = operator.page.get_by_role("dialog")
    dialog.get_by_label("The most to send").fill("3")
    dialog.get_by_role("button", name="Send 3 back").click()
    dialog.get_by_text("4 left for the next time").wait_for()


def test_a_seek_moves_one_lane_and_an_impossible_one_none(service, operator):
    operator.go("tenants/acme")
    operator.page.get_by_role("button", name="Seek…").click()
    dialog = operator.page.get_by_role("dialog")
    dialog.get_by_label("Move partition 1 to").fill("1")
    dialog.get_by_role("button", name="Move 1 lane").click()
    dialog.get_by_text("1 lane moved").wait_for()
    assert service.positions() == {0: 3, 1: 1}


def test_a_tenants_key_opens_its_own_page_alone(service, visit):
    service.fail()
    somebody = visit(service.url)
    somebody.enter(service.key(Role.TENANT, "acme")[0], "tenants/bolt")
    page = somebody.page
    page.get_by_role("heading", name="acme", exact=True).wait_for()
    page.get_by_role("button", name="Show record and stack").click()
    page.locator("pre[aria-label=value]").wait_for()
    somebody.until("!document.querySelector('.is-loading')")
    assert "bolt" not in page.locator("main").inner_text()
    assert somebody.troubles == []


def test_a_viewer_sees_all_but_the_record(service, visit):
    service.fail()
    somebody = visit(service.url)
    somebody.enter(service.key(Role.VIEWER)[0], "tenants/acme")
    page = somebody.page
    page.get_by_role("button", name="Show record and stack").click()
    page.get_by_text("Raw records are shown to operators").wait_for()
    assert page.get_by_role("button", name="Skip…").count() == 0
    somebody.until("!document.querySelector('.is-loading')")
    assert somebody.troubles == []


def test_a_revoked_key_ends_the_session(service, visit):
    text, key = service.key(Role.VIEWER)
    somebody = visit(service.url)
    somebody.enter(text, "tenants/acme")
    service.store.keys.revoke(key.prefix, time.time() - 1)
    somebody.page.get_by_label("Key", exact=True).wait_for(timeout=60000)


def test_a_key_made_here_opens_the_door(service, operator, visit):
    operator.go("keys")
    operator.page.get_by_role("button", name="New key…").click()
    dialog = operator.page.get_by_role("dialog")
    dialog.get_by_role("radio", name=re.compile("^viewer")).check()
    dialog.get_by_label("Label").fill("wall screen")
    dialog.get_by_role("button", name="Create").click()
    key = operator.page.get_by_role("dialog", name="The new key").get_by_label("Key", exact=True)
    somebody = visit(service.url)
    somebody.page.goto(service.url)
    somebody.page.get_by_label("Key", exact=True).fill(key.input_value())
    somebody.page.get_by_role("button", name="Log in").click()
    somebody.page.get_by_role("link", name="acme").wait_for()
    somebody.page.get_by_role("button", name="Log out").click()
    somebody.page.get_by_label("Key", exact=True).wait_for()
