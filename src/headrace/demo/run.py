"""Running the demo: servers, driver, feeder and scenario, then the report.

Killed at any moment, the same command goes on: Kafka keeps what was sent, the store what was done,
and a small journal which events happened. After a verified end the next run starts afresh; so does
every run through Kinesis, which has in memory what was sent.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headrace.connectors.kafka import KafkaLog, create_topics
from headrace.cycle.driver import Driver
from headrace.demo.avro_visits import AvroVisits
from headrace.demo.doors import doors, sections
from headrace.demo.feeder import Feeder
from headrace.demo.guest import GuestBook
from headrace.demo.logs import KafkaVisits, VisitsLog
from headrace.demo.poster import POSTED
from headrace.demo.reading_back import read_back, table_checks
from headrace.demo.registry import registry
from headrace.demo.report import Check, checks, collect
from headrace.demo.scenario import HELD, KAFKA, KINESIS, REMOVED, Journal, apply, due, opening
from headrace.demo.staying import stay
from headrace.demo.streams import with_streams
from headrace.demo.tables import NOTHING_MORE, Asked, with_tables
from headrace.demo.troubles import run_troubles
from headrace.demo.typical import TypicalDelays, listen
from headrace.demo.visits import GUEST, PARTITIONS, TENANTS, read_visits
from headrace.embedded import EmbeddedKafka, EmbeddedSmtp
from headrace.embedded.addresses import free_ports
from headrace.errors import VerifyError
from headrace.model.streams import State
from headrace.process.signals import stopping_on_signals
from headrace.running.assembly import Assembly, assembled
from headrace.running.live import LiveTable
from headrace.settings import Settings

#: most faults shown of one check
SHOWN_FAULTS = 5
_BROKER_KILLED = "broker-killed"


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How the demo runs."""

    folder: Path
    rate_per_s: float = 350.0
    master: str = "local[2]"
    fresh: bool = False
    #: 1: the visits alone; 2: the second act as well; 3: then go on until Ctrl-C
    acts: int = 2
    #: share of the visits after which the broker is killed and started again
    broker_killed_at: float | None = None
    #: where visits are kept beside files and Delta, and what they go through
    asked: Asked = NOTHING_MORE


def run_demo(options: DemoOptions, console: Console) -> list[Check]:
    """Run the demo to its verified end.

    Raises:
        VerifyError: a result differs from what the file says it must be.
    """
    options.asked.check()
    options = replace(options, folder=options.folder.resolve())
    folder = options.folder
    journal = _journal(options, console)
    began_s = time.monotonic()
    with ExitStack() as stack:
        # A broker that is to come back comes back under its address.
        port = free_ports(1)[0] if options.broker_killed_at is not None else None
        kafka = stack.enter_context(EmbeddedKafka(folder / "kafka", port=port))
        smtp = stack.enter_context(EmbeddedSmtp(folder / "mail"))
        console.print(f"Kafka at {kafka.bootstrap_servers}, mail at {smtp.url}", highlight=False)
        settings = settings_of(folder, kafka.bootstrap_servers, smtp.url, options.master)
        settings, log = _log_of(settings, options, stack, console)
        tables = with_tables(settings, folder, stack, options.asked)
        at = stack.enter_context(registry(tables.settings, folder))
        settings, written = at.settings, AvroVisits(at.writer, set(POSTED) - set(log.posted))
        written.register_posted()
        for line in (*opening(with_guest=bool(log.posted)), tables.told):
            console.print(line, highlight=False, soft_wrap=True)
        console.print("starting Spark ...")
        with assembled(settings, folder, "headrace demo") as made:
            kill = _broker_killer(kafka, options, journal, console)
            typical = TypicalDelays(log.name)
            told = journal, console, kill, typical
            if not _drive(made, settings, options, told, (log, written)):
                goes_on = "starts afresh" if options.asked.kinesis else "goes on from here"
                console.print(f"stopped; the same command {goes_on}")
                return []
            found = collect(
                made.store, log, smtp.messages(), folder / "warehouse", _by_schema(made.driver)
            )
            kept = read_back(made.connections, tables.use_cases)
        visits = log.placed(read_visits())
        result = checks(visits, found) + table_checks(visits, found.positions, kept)
        show(result, console, time.monotonic() - began_s)
        console.print(f"  {typical.told}", style="dim", highlight=False, soft_wrap=True)
        if not all(check.passed for check in result):
            raise VerifyError("the demo's results are not what the visits say they must be")
        journal.verified = True
        journal.write()
        if options.acts > 1:
            result += _second_act(folder, kafka.bootstrap_servers, options, console)
        if options.acts > 2:
            stay(settings, folder, console, log, written)
    return result


def _log_of(
    settings: Settings, options: DemoOptions, stack: ExitStack, console: Console
) -> tuple[Settings, VisitsLog]:
    """What visits go through, ready for them; and the settings with it."""
    if options.asked.kinesis:
        return with_streams(settings, options.folder, stack, console.print)
    create_topics(settings.kafka, {f"{name}.visits": PARTITIONS for name in (*TENANTS, GUEST)})
    log = KafkaVisits(settings.kafka, KafkaLog(settings.kafka))
    stack.callback(log.close)
    return settings, log


def _second_act(
    folder: Path, bootstrap_servers: str, options: DemoOptions, console: Console
) -> list[Check]:
    began_s = time.monotonic()
    result = run_troubles(folder / "troubles", bootstrap_servers, options.master, console, folder)
    if not result:
        console.print("stopped in the second act; the same command starts afresh")
        return []
    show(result, console, time.monotonic() - began_s)
    if not all(check.passed for check in result):
        raise VerifyError("the second act did not end as it must")
    return result


def _journal(options: DemoOptions, console: Console) -> Journal:
    folder, log = options.folder, KINESIS if options.asked.kinesis else KAFKA
    journal = Journal.read(folder / "journal.json") if not options.fresh else None
    if journal is None or journal.verified or KINESIS in (log, journal.log):
        shutil.rmtree(folder, ignore_errors=True)
        journal = Journal(folder / "journal.json", [], log=log)
        journal.write()
        return journal
    if journal.done:
        console.print("going on with a demo that did not come to its end")
    return journal


def settings_of(folder: Path, bootstrap_servers: str, smtp_url: str, master: str) -> Settings:
    """What would stand in the demo's YAML file."""
    return Settings.model_validate(
        {
            "module": "headrace.demo.use_cases",
            "kafka": {"bootstrap.servers": bootstrap_servers},
            "database_url": f"sqlite:///{folder / 'headrace.db'}",
            "smtp_url": smtp_url,
            "warehouse": folder / "warehouse",
            "master": master,
            "driver": {"name": "demo"},
            **sections(folder),
        }
    )


#: told the share of the visits that were sent
_OnShare = Callable[[float], None]


def _broker_killer(
    kafka: EmbeddedKafka, options: DemoOptions, journal: Journal, console: Console
) -> _OnShare:
    """Kills the broker once and starts it again, beside the driver, which must live with it."""

    def again() -> None:
        kafka.kill()
        console.print("[bold red]kill -9[/] of the broker alone; it is started again")
        kafka.start()

    def on_share(share: float) -> None:
        at = options.broker_killed_at
        if at is None or share < at or _BROKER_KILLED in journal.done:
            return
        journal.done.append(_BROKER_KILLED)
        journal.write()
        threading.Thread(target=again, name="broker again").start()

    return on_share


def _drive(
    made: Assembly,
    settings: Settings,
    options: DemoOptions,
    told: tuple[Journal, Console, _OnShare, TypicalDelays],
    sent: tuple[VisitsLog, AvroVisits],
) -> bool:
    """Turn the driver until everything sent is done; False if somebody stopped it first."""
    journal, console, on_share, typical = told
    (log, written), with_guest = sent, bool(sent[0].posted)
    ended = held_up = False
    listen(made.driver, lambda result: typical.add(result, time.time()))

    def on_turn(driver: Driver) -> None:
        nonlocal ended, held_up
        if feeder.error is not None:
            raise feeder.error
        _act(made, journal, feeder.share, live.note, with_guest=with_guest)
        on_share(feeder.share)
        guest.poll()
        live.refresh()
        if not feeder.done or due(1.0, journal.done, with_guest=with_guest):
            return
        suspended = _suspended(driver)
        if suspended and not held_up:
            live.note(f"somebody suspended {', '.join(suspended)}: resume, and the report follows")
        held_up = bool(suspended)
        if not suspended and log.is_read(driver):
            ended = True
            made.stop()

    # Keys are of tenants that are there.
    _act(made, journal, 0.0, lambda _: None, with_guest=with_guest)
    with doors(made, settings, options.folder, with_gateway=with_guest) as at:
        feeder = Feeder(log, options.rate_per_s, log.poster(at.gateway_url, at.keys), written)
        feeder.start()
        try:
            with stopping_on_signals(made.stop), LiveTable(made.driver, console, held=HELD) as live:
                live.note(at.invitation)
                guest = GuestBook(made, live.note)
                made.run(on_turn)
        finally:
            feeder.stop()
    return ended


def _by_schema(driver: Driver) -> dict[str, int]:
    """Visits that became rows of files, by the schema that they name.

    A driver soon forgets what it counted of a tenant that was removed.
    """
    found = Counter[str]()
    for stream, meter in driver.reporter.meters.items():
        if stream.tenant in (REMOVED, GUEST):
            continue
        if stream.use_case == "replicate" and meter.writers is not None:
            for writer in meter.writers.figures(time.time()):
                found[writer.schema_id] += writer.records
    return dict(found)


def _suspended(driver: Driver) -> list[str]:
    """Tenants that have a suspended stream."""
    streams = driver.board.streams.values()
    return sorted({held.tenant.name for held in streams if held.state is State.SUSPENDED} - {GUEST})


def _act(
    made: Assembly,
    journal: Journal,
    share: float,
    tell: Callable[[str], None],
    *,
    with_guest: bool,
) -> None:
    for event in due(share, journal.done, with_guest=with_guest):
        apply(event, made.store.registry)
        journal.done.append(event.name)
        journal.write()
        if event.at_share:
            tell(f"at {share:.0%} of the visits: {event}")


def show(result: list[Check], console: Console, seconds: float) -> None:
    """Print the report."""
    table = Table("check", "expected", "found", "", box=None, title="\nReport")
    for check in result:
        missed = "[yellow]slower[/]" if check.speed else "[bold red]DIFFERENT[/]"
        mark = "[green]ok[/]" if check.met else missed
        table.add_row(check.name, check.expected, check.found, mark)
    console.print(table)
    for check in result:
        if check.note:
            console.print(f"  {check.name}: {check.note}", style="dim", highlight=False)
        for fault in check.faults[:SHOWN_FAULTS]:
            console.print(f"  {check.name}: {fault}", style="red", markup=False)
        if len(check.faults) > SHOWN_FAULTS:
            console.print(f"  ... and {len(check.faults) - SHOWN_FAULTS} more", style="red")
    if all(check.passed for check in result):
        repeats = sum(check.repeats for check in result)
        but = f" but mails, {repeats} with the same Message-ID" if repeats else ""
        told = f"nothing lost, nothing twice{but}, {seconds:.0f} s in all"
        console.print(told, style="bold green", highlight=False, soft_wrap=True)
