"""The console in a browser: how soon it is painted, and what a second of a thousand tenants costs.

The real service on a real store, and the system's Chromium; only the drivers are made up: a report
of a thousand tenants, every one of them changed, is published each second. First paint is from the
start of the navigation, with an empty cache. What an update costs is the time of the page's main
thread, in ticks of that thread, so that others on the machine do not count.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright
from pydantic import SecretStr

from benchmarks.harness import write
from benchmarks.planner import quantile
from headrace.console.opening import console_app, console_listening, console_serving, login_link
from headrace.deploying.offer import connections_of
from headrace.doors.keys import new_key
from headrace.doors.secret import made_secret_file, secret_of
from headrace.model.credentials import Role
from headrace.model.records import Deployment, LaneStart
from headrace.model.statistics import LaneFigures, Report, Spread, StreamFigures
from headrace.model.streams import StreamId, Tenant
from headrace.operating.tools import KafkaTools
from headrace.ports import Store
from headrace.process.clock import SystemClock
from headrace.settings import Settings
from headrace.settings.console import ConsoleSettings
from headrace.store import open_store

TENANTS = 1000
VISITS, UPDATES = 20, 20
FIRST_PAINT_S = 1.0
UPDATE_MS = 50.0
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
#: a row in sight
ROW = "[data-table] tbody a"
COUNT_UPDATES = """async () => {
  const { listen } = await import('/pages/live.js');
  window.updates = 0;
  listen(['tenants'], () => { window.updates += 1; });
}"""


def main(options: list[str]) -> None:
    """Measure, check the targets, and write the result."""
    quick = "--quick" in options
    visits, updates = (3, 3) if quick else (VISITS, UPDATES)
    with service() as link, sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("google-chrome")
        assert found, "this needs Chromium: apt-get install chromium"
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        first = first_paints(browser, link, visits)
        costs_ms = update_costs_ms(browser, link, updates)
        browser.close()
    result = {
        "tenants": TENANTS,
        **first,
        "update_main_thread_ms": round(statistics.mean(costs_ms), 1),
        "updates": updates,
    }
    print(result)
    if not quick:
        assert first["first_paint_s"]["median"] < FIRST_PAINT_S
        assert result["update_main_thread_ms"] < UPDATE_MS
        write("console", result)


@contextmanager
def service() -> Iterator[str]:
    """A console of a thousand tenants that all change each second; yields a link that logs in."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        database = f"sqlite:///{folder / 'headrace.db'}"
        given = {"secret_file": made_secret_file(folder / "secret")}
        settings = Settings.model_validate(
            {
                "module": "none.py",
                "database_url": SecretStr(database),
                "doors": given,
                # nothing here asks it anything
                "kafka": {"bootstrap.servers": "127.0.0.1:1"},
            }
        ).model_copy(update={"console": ConsoleSettings(port=0)})
        with closing(open_store(database)) as store:
            fill(store)
            text, key = new_key(Role.OPERATOR, None, "bench", secret_of(settings), time.time())
            store.keys.add(key)
            tools = KafkaTools(connections_of(settings, folder))
            app = console_app(settings, store, tools, SystemClock())
            with console_serving(app, console_listening(settings)) as url, telling(store):
                yield login_link(url, text)


def fill(store: Store) -> None:
    """A use case and its tenants."""
    store.registry.deploy(Deployment("score", "score.py", "ab12", "{tenant}.visits"))
    for number in range(TENANTS):
        store.registry.add_tenant(Tenant(f"tenant-{number:04d}"))
    streams = [StreamId("score", f"tenant-{number:04d}") for number in range(TENANTS)]
    store.progress.start_lanes(
        [LaneStart(stream, "id", {f"{stream.tenant}.visits[0]": 3}) for stream in streams]
    )


@contextmanager
def telling(store: Store) -> Iterator[None]:
    """Publish a report each second meanwhile."""
    ended = threading.Event()

    def tell() -> None:
        turn = 0
        while not ended.is_set():
            store.statistics.publish(report(turn))
            turn += 1
            ended.wait(1.0)

    thread = threading.Thread(target=tell)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def report(turn: int) -> Report:
    """What a driver tells of all tenants; no figure is that of the turn before."""
    now_s = time.time()
    streams = []
    for number in range(TENANTS):
        lag = (number * 7919 + turn * 104_729) % 5000
        delay = Spread(100, 0.1, 0.2 + lag / 9000, 0.5 + lag / 5000, 0.9 + lag / 2000, 4.0 + turn)
        streams.append(
            StreamFigures(
                StreamId("score", f"tenant-{number:04d}"), f"tenant-{number:04d}.visits",
                "active", lag, lag / 50, 20.0 + lag / 100, 21.0 + lag / 90, delay,
                throttled=False, task_share=lag / 2_500_000, records_total=turn * 100,
                dead_letters_total=0, lost_records_total=0, wave=f"w{turn}", note="",
                lanes=(LaneFigures(f"tenant-{number:04d}.visits[0]", 3, 3 + lag, lag_records=lag),),
            )
        )  # fmt: skip
    return Report("one", now_s, now_s - 60, 8, 8, 6, 2, "", tuple(streams), (), ())


def first_paints(browser: Browser, link: str, visits: int) -> dict[str, Any]:
    """Seconds to the first paint and to the first row, each visit with an empty cache."""
    page = browser.new_context().new_page()
    page.goto(link)
    page.locator(ROW).first.wait_for()
    logged_in = page.context.storage_state()
    page.context.close()
    paints, rows = [], []
    for _ in range(visits):
        context = browser.new_context(storage_state=logged_in, viewport=None)
        page = context.new_page()
        page.goto(f"{link.split('#', maxsplit=1)[0]}#/tenants")
        page.locator(ROW).first.wait_for()
        rows.append(page.evaluate("performance.now()") / 1000)
        name = "first-contentful-paint"
        paints.append(page.evaluate(f"performance.getEntriesByName('{name}')[0].startTime") / 1000)
        context.close()
    return {"visits": visits, "first_paint_s": spread(paints), "first_row_s": spread(rows)}


def update_costs_ms(browser: Browser, link: str, updates: int) -> list[float]:
    """Main-thread time of each update."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(link)
    page.locator(ROW).first.wait_for()
    page.evaluate(COUNT_UPDATES)
    tool = page.context.new_cdp_session(page)
    tool.send("Performance.enable", {"timeDomain": "threadTicks"})

    def look() -> tuple[int, float]:
        metrics = tool.send("Performance.getMetrics")["metrics"]
        busy_s = next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")
        return int(page.evaluate("window.updates")), float(busy_s)

    seen, busy_s = look()
    costs_ms: list[float] = []
    while len(costs_ms) < updates:
        page.wait_for_timeout(100)
        now, now_s = look()
        if now > seen:
            costs_ms += [1000 * (now_s - busy_s) / (now - seen)] * (now - seen)
            seen, busy_s = now, now_s
    page.context.close()
    return costs_ms


def spread(values: list[float]) -> dict[str, float]:
    """Median and the worst of twenty, in seconds."""
    return {"median": quantile(values, 0.5), "p95": quantile(values, 0.95)}


if __name__ == "__main__":
    main([])
