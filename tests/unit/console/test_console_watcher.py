"""One look for everybody, at most once a second, and what it makes of what drivers tell."""

import threading
import time
from types import SimpleNamespace

import pytest
from told import DELAY, figures, of_use_case, report, wave

from headrace.console import rows
from headrace.console.watcher import Watcher
from headrace.errors import StoreUnavailable
from headrace.model.statistics import LaneFigures, Spread
from headrace.model.streams import State, StreamId


class Counting:
    """A store that counts its calls."""

    def __init__(self, store, calls=None):
        self.store, self.calls = store, [] if calls is None else calls

    def __getattr__(self, name):
        found = getattr(self.store, name)
        if name in ("registry", "failures"):
            return Counting(found, self.calls)
        self.calls.append(name)
        return found


@pytest.fixture
def counted(store):
    return Counting(store)


@pytest.fixture
def watcher(counted, clock):
    return Watcher(counted, clock)


def looks(counted):
    return counted.calls.count("revision")


def test_many_who_look_within_a_second_cost_one_look(watcher, counted, clock):
    assert len({id(watcher.view()) for _ in range(50)}) == 1
    assert looks(counted) == 1
    clock.move(1.0)
    watcher.view()
    assert looks(counted) == 2


@pytest.fixture
def looking(watcher, store):
    """Somebody who looks meanwhile, until the test lets it end."""
    begun, go_on, seen = threading.Event(), threading.Event(), []
    real = store.statistics.reports

    def slow():
        begun.set()
        assert go_on.wait(60)
        return real()

    def begin():
        store.statistics.reports = slow
        thread = threading.Thread(target=lambda: seen.append(watcher.view()))
        thread.start()
        assert begun.wait(60)

        def end():
            go_on.set()
            thread.join()
            return seen[0]

        return end

    return begin


def test_those_who_come_at_the_first_look_wait_for_what_is_seen(watcher, counted, looking):
    end, seen = looking(), []
    others = [threading.Thread(target=lambda: seen.append(watcher.view())) for _ in range(5)]
    for other in others:
        other.start()
    first = end()
    for other in others:
        other.join()
    assert seen == [first] * 5
    assert looks(counted) == 1


def test_those_who_come_at_a_later_look_get_the_one_before(watcher, clock, looking):
    before = watcher.view()
    clock.move(2)
    end = looking()
    assert watcher.view() is before
    assert end() is watcher.view()


def test_a_look_that_takes_long_is_taken_less_often(watcher, counted, store, clock):
    real = store.statistics.reports

    def long():
        clock.move(2)
        return real()

    store.statistics.reports = long
    watcher.view()
    clock.move(7)
    watcher.view()
    assert looks(counted) == 1
    clock.move(1)
    watcher.view()
    assert looks(counted) == 2


def test_who_holds_a_stream_is_seen_after_a_while(watcher, store, clock):
    watcher.view()
    store.membership.join("one", ["score"])
    watcher.view()
    clock.move(1)
    watcher.view()
    store.membership.hold([StreamId("score", "acme")], "one")
    clock.move(6)
    assert watcher.view().stream_of[StreamId("score", "acme")].holder == "one"


def test_what_was_changed_through_this_door_is_seen_at_once(watcher, store):
    watcher.view()
    store.registry.set_weight("acme", 7.0)
    assert watcher.view().tenant_of["acme"].weight == 1.0
    assert watcher.changed().tenant_of["acme"].weight == 7.0
    assert watcher.view().tenant_of["acme"].weight == 7.0


def test_a_look_that_began_before_a_change_is_not_believed_after_it(watcher, store):
    real = store.statistics.reports

    def changed_meanwhile():
        store.statistics.reports = real
        store.registry.set_weight("acme", 7.0)
        watcher._version = object()  # as `changed` does, in another thread
        return real()

    store.statistics.reports = changed_meanwhile
    watcher.view()
    assert watcher.view().tenant_of["acme"].weight == 7.0


def test_tenants_and_failures_are_read_only_when_the_revision_moved(watcher, counted, clock, fail):
    for _ in range(3):
        watcher.view()
        clock.move(2)
    assert counted.calls.count("tenants") == counted.calls.count("every") == 1
    fail()
    watcher.view()
    assert counted.calls.count("tenants") == counted.calls.count("every") == 2


def test_an_open_failure_is_an_alert(watcher, fail):
    fail()
    (alert,) = watcher.view().alert_rows
    assert (alert["kind"], alert["tenant"]) == ("quarantined", "acme")


def test_a_warning_that_is_mended_is_gone_at_the_next_look(watcher, store, clock, fail):
    number = fail()
    stopped = (
        LaneFigures("acme.visits[0]", 3, 9, failure=number),
        LaneFigures("acme.visits[1]", 3, 9),
    )
    note = "partition 0: HandlerError: no JSON"
    told = figures(state="suspended 1/2", note=note, lanes=stopped)
    store.statistics.publish(report(told, at_s=clock.now_s()))
    acme = StreamId("score", "acme")

    def shown():
        snapshot = watcher.view()
        return snapshot.stream_row(snapshot.stream_of[acme])["condition"], snapshot.alert_rows

    how, alerts = shown()
    assert (how["state"], "no JSON" in how["reason"]) == ("suspended 1/2", True)
    assert len(alerts) == 1
    store.failures.retry(number)
    clock.move(1.0)
    assert shown() == ({"state": "active", "reason": "", "retry_at_s": None}, ())


def test_alerts_of_what_was_removed_are_over(watcher, store, clock, fail):
    fail()
    store.statistics.publish(report(figures(), at_s=clock.now_s() - 60))
    kinds = [alert["kind"] for alert in watcher.view().alert_rows]
    assert kinds == ["driver-lost", "quarantined"]
    store.registry.set_tenant_state("acme", State.REMOVED)
    snapshot = watcher.changed()
    assert snapshot.alert_rows == ()
    assert [driver["lost"] for driver in snapshot.summary["drivers"]] == [False]


def test_figures_that_are_a_minute_old_are_not_shown(watcher, store, clock):
    store.statistics.publish(report(figures(), at_s=clock.now_s(), use_cases=(of_use_case(),)))
    clock.move(59)
    assert watcher.view().tenant_rows["acme"]["figures"] is not None
    assert watcher.view().use_case_rows["score"]["figures"] is not None
    clock.move(2)
    assert watcher.view().tenant_rows["acme"]["figures"] is None
    assert watcher.view().use_case_rows["score"]["figures"] is None


def test_of_two_drivers_who_told_last_is_believed(watcher, store, clock):
    now_s = clock.now_s()
    store.statistics.publish(report(figures(lag_records=1), driver="z-old", at_s=now_s - 9))
    store.statistics.publish(report(figures(lag_records=2), driver="a-new", at_s=now_s))
    snapshot = watcher.view()
    assert snapshot.tenant_rows["acme"]["figures"]["lag_records"] == 2
    assert [driver["driver"] for driver in snapshot.summary["drivers"]] == ["a-new", "z-old"]


def test_the_summary_counts_what_is_there(watcher, store, clock):
    store.registry.set_tenant_state("bolt", State.REMOVED)
    told = report(figures(), at_s=clock.now_s() - 16)
    store.statistics.publish(told)
    summary = watcher.view().summary
    assert (summary["tenants_total"], summary["streams_total"]) == (1, 1)
    assert (summary["lag_records"], summary["in_per_s"], summary["out_per_s"]) == (4, 2.0, 3.0)
    assert [driver["lost"] for driver in summary["drivers"]] == [True]
    assert summary["alerts_total"] == 1


def test_waves_of_all_drivers_come_newest_first(watcher, store, clock):
    store.statistics.publish(report(driver="a", waves=(wave("a2", 5.0), wave("a1", 1.0))))
    store.statistics.publish(report(driver="b", waves=(wave("b1", 3.0),)))
    assert [row["wave"] for row in watcher.view().wave_rows] == ["a2", "b1", "a1"]


def test_a_store_that_does_not_answer_is_asked_again_by_the_next(watcher, store):
    real, store.revision = store.revision, lambda: (_ for _ in ()).throw(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        watcher.view()
    store.revision = real
    assert watcher.view().tenants


# --- rows --------------------------------------------------------------------------------------


def test_those_who_wait_for_a_look_that_fails_do_not_each_wait_for_one_of_their_own(
    watcher, counted, store, clock
):
    """Or the last of many would wait as many times as long as a store that hangs is waited for."""
    begun, go_on, told, came = threading.Event(), threading.Event(), [], []

    def comes():
        came.append(1)
        return clock.monotonic_s()

    def hangs():
        begun.set()
        assert go_on.wait(60)
        clock.move(20.0)
        raise StoreUnavailable("no answer")

    def look():
        with pytest.raises(StoreUnavailable, match="no answer") as raised:
            watcher.view()
        told.append(raised.value)

    store.statistics.reports = hangs
    threads = [threading.Thread(target=look) for _ in range(6)]
    threads[0].start()
    assert begun.wait(60)
    watcher._clock = SimpleNamespace(now_s=clock.now_s, monotonic_s=comes)
    for thread in threads[1:]:
        thread.start()
    give_up_s = time.monotonic() + 60
    while len(came) < 5:
        assert time.monotonic() < give_up_s
        time.sleep(0.01)
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(told) == 6
    assert looks(counted) == 1


def test_several_streams_are_summed_and_of_times_the_worst_is_shown(store):
    late = Spread(5, 0.05, 1.0, 0.3, 0.6, 0.8)
    two = [
        figures(
            lanes=(LaneFigures("acme.visits[0]", 1, 2, 9), LaneFigures("acme.visits[1]", 1, 2))
        ),
        figures(use_case="copy", lag_s=9.0, state="suspended 1/4", note="look", delay=late),
    ]
    shown = rows.tenant_row(store.registry.tenants()[0], two, 3)["figures"]
    assert (shown["lag_records"], shown["lag_s"], shown["in_per_s"]) == (8, 9.0, 4.0)
    assert (shown["state"], shown["note"], shown["streams_total"]) == ("suspended 1/4", "look", 3)
    assert (shown["task_share"], shown["failures_open"]) == (0.5, 1)
    assert shown["delay"] == {
        "count": 15, "min_s": 0.05, "p50_s": 1.0, "p95_s": 0.4, "p99_s": 0.6, "max_s": 0.9,
    }  # fmt: skip


def test_a_spread_of_nothing_does_not_count():
    assert rows.worst([Spread(), DELAY]) == DELAY
    assert rows.worst([]) == rows.worst([Spread(), Spread()]) == Spread()


def test_bytes_that_no_sink_tells_are_none_and_not_nothing(store):
    deployment = store.registry.deployments()[0]
    untold = rows.use_case_row(deployment, [of_use_case(), of_use_case()])["figures"]
    assert (untold["bytes_out_per_s"], untold["pace_per_s"]) == (None, None)
    told = rows.use_case_row(deployment, [of_use_case(bytes_out_per_s=2.0), of_use_case()])
    assert told["figures"]["bytes_out_per_s"] == 2.0
    assert told["figures"]["records_per_s"] == 10.0


def test_nothing_that_may_be_secret_is_shown_of_a_use_case(store):
    shown = rows.use_case_row(store.registry.deployments()[0], [])
    assert shown.keys().isdisjoint({"options", "module"})
