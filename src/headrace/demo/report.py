"""The end of the demo: what is in the log, SQL, the mailbox and the files, against what must be.

Each check is a line with what was expected and what was found. A difference of one record in any of
them is a failure, and the first few culprits are named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from headrace.connectors.sql.guests import in_sql
from headrace.demo.expected import Expected, came_by, expected
from headrace.demo.logs import VisitsLog, offset_of
from headrace.demo.scenario import KAFKA, REMOVED
from headrace.demo.visits import GUEST, Lane, Visit, lane_of
from headrace.model.places import Place, read_place
from headrace.model.streams import Position
from headrace.ports import Store

_FILE = re.compile(r".+-(?P<partition>\d+)-(?P<from>\d{20,})-(?P<until>\d{20,})\.parquet")


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    expected: str
    found: str
    #: the first few differences, as people read them
    faults: tuple[str, ...] = ()
    note: str = ""
    #: a speed depends on the machine: a miss is shown, and nothing is wrong
    speed: bool = False
    #: so many mails came twice, as SMTP allows: who sends is killed before the answer
    repeats: int = 0

    @property
    def met(self) -> bool:
        """Whether it is as expected."""
        return self.expected == self.found and not self.faults

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return self.met or self.speed


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that came out of the demo."""

    ends: Mapping[Lane, int]
    #: use case -> lane -> how many visits are committed
    positions: Mapping[str, Mapping[Lane, int]]
    scores: Mapping[tuple[str, str], tuple[int, int]]
    mails: list[EmailMessage]
    files: list[Path]
    #: records by id of their writer's schema, as the driver counted them for the files; without
    #: those of the tenant that was removed
    by_schema: Mapping[str, int]
    #: how many visits of a lane are before a place in it
    reached: Callable[[Lane, Place], int] = offset_of
    log: str = KAFKA
    #: what else is to be seen in the log itself
    more: tuple[Check, ...] = ()


def collect(
    store: Store,
    log: VisitsLog,
    mails: list[EmailMessage],
    warehouse: Path,
    by_schema: Mapping[str, int],
) -> Found:
    """Read everything back from where it is; a guest's visits are nobody's business."""
    ends = log.counts()
    with in_sql(store.positions).begin() as connection:
        rows = connection.exec_driver_sql("SELECT tenant, lead, score, visits FROM scores")
        scores = {(row[0], row[1]): (row[2], row[3]) for row in rows if row[0] != GUEST}
    files = sorted((warehouse / "visits").rglob("*.parquet"))
    return Found(
        ends,
        _by_use_case(
            (
                position
                for position in store.progress.load_positions()
                if position.lane.tenant != GUEST
            ),
            ends,
            log.reached,
        ),
        scores,
        [mail for mail in mails if f"@{GUEST}." not in str(mail["To"])],
        [file for file in files if file.parent.name != f"tenant={GUEST}"],
        by_schema,
        log.reached,
        log.name,
        tuple(Check(*told) for told in log.told()),
    )


def _by_use_case(
    positions: Iterable[Position], lanes: Iterable[Lane], reached: Callable[[Lane, Place], int]
) -> dict[str, dict[Lane, int]]:
    """How far each lane is; one that nobody has begun is at none."""
    found: dict[str, dict[Lane, int]] = {}
    for position in positions:
        lane = lane_of(position.lane.name)
        its = found.setdefault(position.lane.use_case, dict.fromkeys(lanes, 0))
        its[lane] = reached(lane, position.next_offset)
    return found


def checks(visits: list[Visit], found: Found) -> list[Check]:
    """Hold what was found against a plain computation over the file."""
    left_at = {
        name: {lane: offset for lane, offset in lanes.items() if lane[0] == REMOVED}
        for name, lanes in found.positions.items()
    }
    should = expected(visits, left_at)
    everything = expected(visits, {})
    return [
        _in_log(should, found),
        _positions(found),
        _scores(should, found),
        _mails(should, everything, found),
        *_files(should, found),
        *found.more,
    ]


def _in_log(should: Expected, found: Found) -> Check:
    ends = {lane: len(visits) for lane, visits in should.lanes.items()}
    faults = tuple(
        f"{lane}: {count} expected, {found.ends.get(lane, 0)} found"
        for lane, count in sorted(ends.items())
        if found.ends.get(lane, 0) != count
    )
    name = f"visits in {found.log}, by lane"
    return Check(name, str(sum(ends.values())), str(sum(found.ends.values())), faults)


def _positions(found: Found) -> Check:
    lanes = [
        (name, lane, offset, found.ends.get(lane, 0))
        for name, positions in sorted(found.positions.items())
        for lane, offset in sorted(positions.items())
    ]
    faults = tuple(
        f"{name} {lane}: position {offset}, end {end}"
        for name, lane, offset, end in lanes
        if offset > end or (lane[0] != REMOVED and offset != end)
    )
    left = sum(end - offset for _, lane, offset, end in lanes if lane[0] == REMOVED)
    at_end = sum(1 for _, lane, offset, end in lanes if lane[0] != REMOVED and offset == end)
    wanted = sum(1 for _, lane, _, _ in lanes if lane[0] != REMOVED)
    note = f"{REMOVED} left {left} unread when it was removed"
    return Check("lanes read to their end", str(wanted), str(at_end), faults, note)


def _scores(should: Expected, found: Found) -> Check:
    different = sorted(
        key
        for key in {*should.scores, *found.scores}
        if should.scores.get(key) != found.scores.get(key)
    )
    faults = tuple(
        f"{tenant}/{lead}: {should.scores.get((tenant, lead))} expected, "
        f"{found.scores.get((tenant, lead))} found"
        for tenant, lead in different
    )
    total = sum(score for score, _ in should.scores.values())
    return Check(
        "scores (order and count both show in them)",
        f"{len(should.scores)} leads, {total} points",
        f"{len(found.scores)} leads, {sum(score for score, _ in found.scores.values())} points",
        faults,
    )


def _mails(should: Expected, everything: Expected, found: Found) -> Check:
    """Each mail once by its Message-ID; the same one twice is what SMTP may do after a kill."""
    by_id = {str(mail["Message-ID"]): mail for mail in found.mails}
    got = Counter(
        (str(mail["To"]).split("@")[1].split(".")[0], str(mail["Subject"]))
        for mail in by_id.values()
    )
    missing = Counter(should.mails) - got
    # A removed tenant's last slice may have sent its mails and not have committed.
    foreign = got - Counter(everything.mails)
    early = got - Counter(should.mails)
    faults = (
        *(f"missing: {tenant}: {subject}" for tenant, subject in sorted(missing)),
        *(f"not expected: {tenant}: {subject}" for tenant, subject in sorted(foreign)),
        *(f"not expected: {row}" for row in sorted(early) if row[0] != REMOVED),
    )
    wanted = sum(should.mails.values())
    shown = sum(got.values()) - sum(
        count for (tenant, _), count in early.items() if tenant == REMOVED
    )
    repeats = len(found.mails) - len(by_id)
    note = f"{repeats} delivered twice with the same Message-ID" if repeats else ""
    return Check("mails to sales", str(wanted), str(shown), faults, note, repeats=repeats)


def _files(should: Expected, found: Found) -> list[Check]:
    lanes: dict[Lane, list[tuple[int, int, Path]]] = {}
    for path in found.files:
        match = _FILE.fullmatch(path.name)
        tenant = path.parent.name.removeprefix("tenant=")
        if match is not None:
            lane = (tenant, int(match["partition"]))
            start, until = (found.reached(lane, _place(match[end])) for end in ("from", "until"))
            lanes.setdefault(lane, []).append((start, until, path))
    chain: list[str] = []
    rows: list[str] = []
    total = 0
    came, should_come = Counter[str](), Counter[str]()
    for lane, position in sorted(found.positions.get("replicate", {}).items()):
        files = sorted(lanes.pop(lane, []))
        chain += _chain_faults(lane, files, position)
        found_rows = [row for _, _, path in files for row in _rows(path)]
        total += len(found_rows)
        visits = should.lanes.get(lane, [])[:position]
        if found_rows != [(visit.line, _method(visit)) for visit in visits]:
            rows.append(f"{lane}: rows differ from the file's own order")
        should_come.update(map(came_by, visits))
        came.update("version 1" if method is None else "version 2" for _, method in found_rows)
    chain += [f"{lane}: files of a lane nobody reads" for lane in sorted(lanes)]
    wanted_rows = sum(found.positions.get("replicate", {}).values())
    count = len(found.files)
    return [
        Check("slices in files, end to end", f"{count} files", f"{count} files", tuple(chain)),
        Check("visits in files, in order", str(wanted_rows), str(total), tuple(rows)),
        Check(
            "visits by the version of their schema",
            _counts(should_come),
            _counts(came),
            note=f"the driver counted, since it was started: {_counted(found.by_schema)}; without "
            f"{REMOVED}, whose count it forgets after the removal",
        ),
    ]


def _place(padded: str) -> Place:
    return read_place(padded.lstrip("0") or "0")


def _method(visit: Visit) -> str | None:
    """The first version of the schema is without it."""
    return None if came_by(visit) == "version 1" else visit.method


def _counts(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(found.items()))


def _counted(by_schema: Mapping[str, int]) -> str:
    told = [f"{count} by schema {id_}" for id_, count in sorted(by_schema.items())]
    return ", ".join(told) or "none"


def _rows(path: Path) -> list[tuple[int, str | None]]:
    table = pq.read_table(path, columns=["line", "method"], partitioning=None)
    rows: list[Any] = list(zip(table["line"].to_pylist(), table["method"].to_pylist(), strict=True))
    return rows


def _chain_faults(lane: Lane, files: list[tuple[int, int, Path]], position: int) -> list[str]:
    faults, reached = [], 0
    for start, until, path in files:
        if start != reached:
            faults.append(f"{lane}: {path.name} does not begin at {reached}")
        reached = until
    if reached != position:
        faults.append(f"{lane}: files reach {reached}, the position is {position}")
    return faults
