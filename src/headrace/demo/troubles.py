"""The second act: one tenant floods, one is slow, one fails, one hangs, one sends rubbish.

Eight quiet tenants order something ten times a second. After a calm while the trouble begins, and
the question is what the quiet ones notice. At the end every order is accounted for: delivered
exactly once, kept in the dead letters, or waiting behind a failure that a person can look at.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console

from headrace.connectors.kafka import OFFSETS, KafkaLog, create_topics
from headrace.connectors.sql.guests import in_sql
from headrace.cycle.driver import Driver
from headrace.demo import doors
from headrace.demo.orders import CALM_S, QUIET, TROUBLE, Order, OrderFeeder, orders
from headrace.demo.report import Check
from headrace.demo.typical import listen
from headrace.model.lane_names import named
from headrace.model.places import FIRST
from headrace.model.records import Failure
from headrace.model.statistics import ShownState
from headrace.model.streams import Tenant
from headrace.policies.quarantine import MOST_LETTERS
from headrace.ports import Store, WaveResult
from headrace.process.signals import stopping_on_signals
from headrace.running.assembly import Assembly, assembled
from headrace.running.live import LiveTable
from headrace.settings import Settings

#: who must come to the end of their orders, whatever the others do
FINISHING = (*QUIET, "flooding", "slow", "poisoned")
#: the failures that stop a lane for good, and why
STOPPED = {"failing": "HandlerError", "hanging": "HandlerHung"}
#: a quiet tenant's delay with all the trouble there is
MOST_DELAY_S = 2.0
#: all of Spark's workers are warm after so long
WARM_S = 4.0
#: the act ends after so long, come what may; then the report says what is missing
MOST_S = 120.0


@dataclass(slots=True)
class Delays:
    """Delays of the quiet tenants' orders, before and after the trouble began."""

    #: when everything began to be sent; not yet
    began_s: float = float("inf")
    calm: list[float] = field(default_factory=list)
    troubled: list[float] = field(default_factory=list)

    def add(self, result: WaveResult) -> None:
        """Take one wave that was just committed."""
        now_s = time.time()
        for receipt in result.receipts:
            if receipt.slice.lane.tenant in QUIET:
                for stamp_s in receipt.timestamps_s:
                    if stamp_s >= self.began_s + CALM_S:
                        self.troubled.append(now_s - stamp_s)
                    elif stamp_s >= self.began_s + WARM_S:
                        self.calm.append(now_s - stamp_s)


def run_troubles(
    folder: Path, bootstrap_servers: str, master: str, console: Console, keys: Path
) -> list[Check]:
    """Run the second act from its beginning; an empty list if somebody stopped it.

    Args:
        folder: kept by this act alone; emptied first.
        bootstrap_servers: a Kafka without the act's topics, or with those of an act that ended.
        master: Spark master.
        console: where the table is drawn.
        keys: the folder in which the demo keeps its keys.
    """
    shutil.rmtree(folder, ignore_errors=True)
    settings = _settings(folder, bootstrap_servers, master, keys)
    create_topics(settings.kafka, {f"{name}.orders": 1 for name in (*QUIET, *TROUBLE)})
    console.print("\nSecond act: eight quiet tenants, and trouble with five others")
    console.print(
        "delays are shown over the last minute: the first ones are of orders that waited while "
        "Spark became warm; the report leaves those out",
        highlight=False,
        soft_wrap=True,
    )
    with assembled(settings, folder, "headrace demo, second act") as made:
        for name in (*QUIET, *TROUBLE):
            made.store.registry.add_tenant(Tenant(name))
        with doors.console(made, settings, keys) as link:
            console.print(f"console  {link}", highlight=False, soft_wrap=True)
            delays = _drive(made, settings, console)
        if delays is None:
            return []
        log = KafkaLog(made.connections.kafka)
        letters = log.end_offsets([named("poisoned.orders.dlq", 0)])
        log.close()
        kept = sum(OFFSETS.between(end, FIRST) or 0 for end in letters.values())
        return checks(orders(), made.store, kept, delays)


def _settings(folder: Path, bootstrap_servers: str, master: str, keys: Path) -> Settings:
    return Settings.model_validate(
        {
            "module": "headrace.demo.orders_use_case",
            "kafka": {"bootstrap.servers": bootstrap_servers},
            "database_url": f"sqlite:///{folder / 'headrace.db'}",
            "warehouse": folder / "warehouse",
            "master": master,
            "driver": {"name": "demo"},
            "use_cases": {"to-crm": {"retries": 0, "handler_timeout": "2s"}},
            **doors.sections(keys),
        }
    )


def _drive(made: Assembly, settings: Settings, console: Console) -> Delays | None:
    driver = made.driver
    feeder = OrderFeeder(settings.kafka)
    delays = Delays()
    listen(driver, delays.add)
    give_up_s = time.monotonic() + MOST_S
    ended = told = False

    def on_turn(driver: Driver) -> None:
        nonlocal ended, told
        if feeder.error is not None:
            raise feeder.error
        live.refresh()
        if delays.began_s == float("inf") and _begun(driver):
            delays.began_s = time.time()
            feeder.go()
        if not told and time.time() >= delays.began_s + CALM_S:
            told = True
            for name, what in TROUBLE.items():
                live.note(f"{name}: {what}")
        ended = feeder.done and (_settled(driver) or time.monotonic() > give_up_s)
        if ended:
            made.stop()

    try:
        with stopping_on_signals(made.stop), LiveTable(driver, console) as live:
            feeder.start()
            made.run(on_turn)
    finally:
        feeder.stop()
    return delays if ended else None


def _begun(driver: Driver) -> bool:
    """Every quiet tenant's first order has arrived."""
    return sum(row.records_total for row in driver.rows()) >= len(QUIET)


def _settled(driver: Driver) -> bool:
    """Whoever can has come to the end, and whoever cannot was stopped."""
    rows = {row.stream.tenant: row for row in driver.rows()}
    through = all(rows[name].lag_records == 0 for name in FINISHING if name in rows)
    stopped = all(rows[name].state == ShownState.SUSPENDED for name in STOPPED if name in rows)
    return through and stopped and driver.idle


def checks(sent: list[Order], store: Store, letters: int, delays: Delays) -> list[Check]:
    """Account for every order."""
    with in_sql(store.positions).begin() as connection:
        rows = connection.exec_driver_sql("SELECT tenant, number, times FROM orders")
        found = {(row[0], row[1]): row[2] for row in rows}
    failures = {
        failure.slice.lane.tenant: failure for failure in store.failures.every(only_open=True)
    }
    return [
        *(_delivered(name, names, sent, found) for name, names in _GROUPS.items()),
        _dead_letters(sent, letters),
        *(_stopped(name, failures) for name in STOPPED),
        _undisturbed(delays),
    ]


_GROUPS = {
    "orders of the quiet ones, exactly once": QUIET,
    "orders of the flood, exactly once": ("flooding",),
    "orders of the slow one, exactly once": ("slow",),
    "good orders of the poisoned one": ("poisoned",),
}


def _delivered(
    name: str, tenants: tuple[str, ...], sent: list[Order], found: dict[tuple[str, int], int]
) -> Check:
    wanted = {(order.tenant, order.number) for order in sent if order.tenant in tenants}
    wanted -= {(order.tenant, order.number) for order in sent if order.bad}
    got = {key: times for key, times in found.items() if key[0] in tenants}
    faults = (
        *(f"missing: {tenant} {number}" for tenant, number in sorted(wanted - got.keys())),
        *(f"{key[0]} {key[1]} arrived {times} times" for key, times in got.items() if times != 1),
    )
    return Check(name, str(len(wanted)), str(len(got)), faults)


def _dead_letters(sent: list[Order], letters: int) -> Check:
    bad = sum(order.bad for order in sent)
    return Check("bad orders in poisoned.orders.dlq", str(bad), str(letters))


def _stopped(name: str, failures: dict[str, Failure]) -> Check:
    failure = failures.get(name)
    error = failure.error if failure is not None else None
    return Check(
        f"the {name} one: {MOST_LETTERS} set aside, then stopped",
        f"{STOPPED[name]} at {MOST_LETTERS}",
        f"{error.code} at {error.offset}" if error is not None else "no failure",
        note=error.message if error is not None else "",
    )


def _undisturbed(delays: Delays) -> Check:
    calm_s = float(np.quantile(delays.calm, 0.99)) if delays.calm else float("nan")
    troubled_s = float(np.quantile(delays.troubled, 0.99)) if delays.troubled else float("nan")
    wanted = f"p99 under {MOST_DELAY_S:g} s"
    found = wanted if troubled_s < MOST_DELAY_S else f"p99 {troubled_s:.2f} s"
    note = f"p99 {calm_s:.2f} s before the trouble, {troubled_s:.2f} s with it"
    return Check("delay of the quiet ones", wanted, found, note=note, speed=True)
