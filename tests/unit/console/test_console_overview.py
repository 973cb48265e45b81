"""What concerns the service as a whole, its history, and its pages."""

from pathlib import Path

import pytest
from told import DELAY, figures, of_use_case, report, wave

from headrace.console.history import SparkKeeper
from headrace.console.static import read_pages
from headrace.errors import StoreUnavailable
from headrace.model.records import Deployment
from headrace.model.statistics import Point
from headrace.model.streams import State, StreamId
from headrace.testing.memory_store import MemoryStore


def point(from_s, tenant="acme", use_case="score", **more):
    given = {"lag_records": 1, "lag_s": 2.0, "records_in": 60, "records_out": 120, "task_s": 0.5}
    return Point(StreamId(use_case, tenant), from_s, 60.0, delay=DELAY, **given | more)


# --- overview ----------------------------------------------------------------------------------


def test_use_cases_are_shown_with_figures_of_all_drivers(api, store, clock):
    for driver in ("one", "two"):
        told = report(driver=driver, at_s=clock.now_s(), use_cases=(of_use_case(),))
        store.statistics.publish(told)
    (shown,) = api.items("/v1/use-cases")
    assert (shown["use_case"], shown["digest"]) == ("score", "ab12")
    assert shown["figures"]["records_per_s"] == 10.0
    assert api.get("/v1/use-cases/score").json() == shown
    assert api.get("/v1/use-cases/none").status_code == 404


def test_a_rerun_that_is_over_leaves_the_list_until_it_is_asked_for(api, store):
    store.registry.deploy(
        Deployment(
            "score~1",
            "score.py",
            "ab12",
            "{tenant}.visits",
            all_tenants=False,
            until={"acme.visits[0]": 3},
        )
    )
    rerun = StreamId("score~1", "acme")
    store.registry.add_stream(rerun)
    names = [item["use_case"] for item in api.items("/v1/use-cases")]
    assert names == ["score", "score~1"]
    store.registry.set_stream_state(rerun, State.REMOVED)
    api.app.state.desk.watcher.changed()
    assert [item["use_case"] for item in api.items("/v1/use-cases")] == ["score"]
    assert [item["use_case"] for item in api.items("/v1/use-cases?all=true")] == names
    assert api.get("/v1/use-cases/score~1").status_code == 200


def test_waves_come_in_pages_newest_first_and_by_use_case(api, store, clock):
    waves = (wave("w3", 3.0), wave("w2", 2.0, use_case="copy"), wave("w1", 1.0))
    store.statistics.publish(report(at_s=clock.now_s(), waves=waves))
    first = api.get("/v1/waves?limit=2").json()
    second = api.get(f"/v1/waves?cursor={first['next']}").json()
    assert [item["wave"] for item in first["items"] + second["items"]] == ["w3", "w2", "w1"]
    assert [item["wave"] for item in api.items("/v1/waves?use_case=copy")] == ["w2"]


def test_alerts_come_gravest_first_and_a_tenant_sees_its_own(api, store, clock, fail):
    fail()
    fail("bolt")
    store.statistics.publish(report(figures(), at_s=clock.now_s() - 20))
    kinds = [(item["kind"], item["tenant"]) for item in api.items("/v1/alerts")]
    expected = [("driver-lost", None), ("quarantined", "acme"), ("quarantined", "bolt")]
    assert kinds == expected
    first = api.get("/v1/alerts?limit=2").json()
    rest = api.items(f"/v1/alerts?cursor={first['next']}")
    assert [(alert["kind"], alert["tenant"]) for alert in rest] == expected[2:]
    assert [item["tenant"] for item in api.items("/v1/alerts", "tenant")] == ["acme"]


def test_the_summary_is_for_those_who_see_all(api):
    assert api.get("/v1/summary", "viewer").json()["tenants_total"] == 2
    assert api.get("/v1/summary", "tenant").status_code == 403


def test_a_store_that_is_away_makes_the_service_not_ready_but_alive(api, store, clock, monkeypatch):
    def away():
        raise StoreUnavailable

    assert api.get("/readyz", None).status_code == 200
    monkeypatch.setattr(store, "revision", away)
    clock.move(1.0)
    answer = api.get("/readyz", None)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert api.get("/livez", None).json() == {"status": "ok"}
    monkeypatch.undo()
    clock.move(1.0)
    assert api.get("/readyz", None).status_code == 200


def test_however_many_strangers_ask_whether_it_is_ready_the_store_is_asked_once(
    api, store, monkeypatch
):
    asked, real = [], store.revision
    monkeypatch.setattr(store, "revision", lambda: asked.append(1) or real())
    assert [api.get("/readyz", None).status_code for _ in range(20)] == [200] * 20
    assert len(asked) == 1


# --- history -----------------------------------------------------------------------------------


def test_a_tenants_history_is_the_last_hour_unless_asked_otherwise(api, store, clock):
    now_s = clock.now_s() // 60 * 60
    store.statistics.keep(
        [point(now_s - 7200), point(now_s - 600), point(now_s - 600, "bolt"), point(now_s - 60)]
    )
    shown = api.get("/v1/tenants/acme/history", "tenant").json()["items"]
    assert [row["from_s"] for row in shown] == [now_s - 600, now_s - 60]
    assert shown[0]["delay"]["p95_s"] == 0.4
    path = f"/v1/tenants/acme/history?from_s={now_s - 7200}&until_s={now_s - 300}"
    asked = api.get(path).json()["items"]
    assert [row["from_s"] for row in asked] == [now_s - 7200, now_s - 600]


@pytest.mark.parametrize("asked", ["from_s=-1", "until_s=nan", "from_s=x", "until_s=inf"])
def test_a_time_that_is_none_is_refused(api, asked):
    assert api.get(f"/v1/tenants/acme/history?{asked}").status_code == 422


def test_a_spark_line_has_a_value_a_minute_and_the_worst_of_streams(store, clock):
    now_s = clock.now_s()
    minute = now_s // 60 * 60
    store.statistics.keep(
        [
            point(minute - 60),
            point(minute - 60, use_case="copy", lag_s=9.0),
            point(minute, "bolt"),
            point(minute - 60 * 30),
        ]
    )
    from_s, lines = SparkKeeper(store.statistics).read(now_s)
    assert from_s == minute - 60 * 29
    assert lines.keys() == {"acme", "bolt"}
    assert lines["acme"]["lag_s"] == [None] * 28 + [9.0, None]
    assert lines["acme"]["out_per_s"] == [None] * 28 + [4.0, None]
    assert lines["bolt"]["out_per_s"] == [None] * 29 + [2.0]


def test_spark_lines_move_on_and_read_only_what_is_new(clock):
    store = MemoryStore()
    asked = []
    real = store.statistics.history

    def noted(streams, from_s, until_s):
        asked.append(until_s - from_s)
        return real(streams, from_s, until_s)

    store.statistics.history = noted
    keeper = SparkKeeper(store.statistics)
    minute = clock.now_s() // 60 * 60
    clock.wall_s = minute
    store.statistics.keep([point(minute - 60)])
    keeper.read(minute)
    keeper.read(minute + 1)
    assert len(asked) == 1
    store.statistics.keep([point(minute, lag_s=5.0)])
    from_s, lines = keeper.read(minute + 60)
    assert asked[1] < asked[0] / 4
    assert from_s == minute - 60 * 28
    assert lines["acme"]["lag_s"][-3:] == [2.0, 5.0, None]


def test_spark_lines_are_of_the_minutes_that_the_clock_tells_also_if_it_is_set_back(store, clock):
    keeper = SparkKeeper(store.statistics)
    minute = clock.now_s() // 60 * 60
    keeper.read(minute + 7200)
    store.statistics.keep([point(minute, lag_s=5.0)])
    from_s, lines = keeper.read(minute)
    assert from_s == minute - 60 * 29
    assert lines["acme"]["lag_s"][-1] == 5.0


def test_a_tenant_sees_its_own_spark_line(api, store, clock):
    minute = clock.now_s() // 60 * 60
    store.statistics.keep([point(minute), point(minute, "bolt")])
    assert api.get("/v1/sparks", "tenant").json()["tenants"].keys() == {"acme"}
    assert api.get("/v1/sparks", "viewer").json()["tenants"].keys() == {"acme", "bolt"}


# --- pages -------------------------------------------------------------------------------------


@pytest.fixture
def pages(app, tmp_path):
    (tmp_path / "js").mkdir()
    (tmp_path / "index.html").write_text("<p>hello")
    (tmp_path / "js" / "app.js").write_text("1")
    (tmp_path / "leak.py").write_text("secret")
    app.state.pages = read_pages(Path(tmp_path))
    yield
    app.state.pages = read_pages()


def test_pages_are_served_to_everybody_with_their_type(api, pages):
    index = api.get("/", None)
    assert index.text == "<p>hello"
    assert index.headers["content-type"] == "text/html; charset=utf-8"
    script = api.get("/pages/js/app.js", None)
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"


def test_a_page_that_has_not_changed_is_not_sent_again(api, pages):
    etag = api.get("/", None).headers["etag"]
    again = api.get("/", None, headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["leak.py", "../api.py", "..%2fapi.py", "%2e%2e/api.py", "js", ""])
def test_nothing_else_of_the_file_system_is_served(api, pages, path):
    assert api.get(f"/pages/{path}", None).status_code == 404
