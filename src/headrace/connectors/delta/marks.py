"""How far each lane has come, by the transaction ids in a Delta table's log.

Delta keeps, for each *application id*, the number that was committed last, in its log and in the
checkpoints of it, for good. Two of them are a lane's mark: how far it came, and of which wave, as a
number made of the wave's name (63 bits of SHA-256). Both are in the commit that brings the rows. A
number has 64 bits; a place that needs more stands in several of them, 18 digits in each.

The client library tells the number of one id, and reads the log anew for each: two milliseconds a
lane. So the log is read here, which is a public format: the newest checkpoint once, and then each
commit as it comes, and only what is said of our ids is kept. What a mark means for whom is decided
in `connectors/wave_marks.py`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

import orjson
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.connectors.delta.homes import LOG, Home, commit_path
from headrace.errors import SinkUnavailable
from headrace.model.places import NARROW, Place, read_place, text_of
from headrace.model.streams import LaneId
from headrace.model.waves import planned_id

_PREFIX = "headrace/"
#: one file, or one of several: version, which, of how many
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
#: commits that are read one by one before a newer checkpoint is looked for
_MOST_COMMITS = 1_000
#: digits of a wide place that a number holds, and how many more such numbers the widest has
_DIGITS, _MORE = 18, 4


class LaneMark(NamedTuple):
    """How far a lane came, and of which wave that was."""

    reached: Place
    wave_id: str


@lru_cache(maxsize=64)
def wave_number(wave_id: str) -> int:
    """A number that the parts of a planned wave share, and no other wave has."""
    digest = hashlib.sha256(planned_id(wave_id).encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


class MarkIds(NamedTuple):
    """The application ids of a lane."""

    reached: str
    wave: str

    @property
    def more(self) -> list[str]:
        """The ids of what of a wide place does not fit in the first."""
        return [f"{self.reached}/{number}" for number in range(1, _MORE + 1)]

    def numbers(self, reached: Place, wave_id: str, ids: Mapping[str, int]) -> dict[str, int]:
        """What the ids are to be when the lane has come so far; ``ids``: what they are."""
        wave = {self.wave: wave_number(wave_id)}
        first, *more = self.more
        if reached <= NARROW and first not in ids:
            return {self.reached: int(text_of(reached)), **wave}
        return dict(zip((self.reached, first, *more), _parts(reached), strict=True)) | wave

    def mark(self, ids: Mapping[str, int], wave_id: str) -> LaneMark | None:
        """The lane's mark, under this wave's own id if it is of the same planned one."""
        if self.reached not in ids or self.wave not in ids:
            return None
        same = ids[self.wave] == wave_number(wave_id)
        parts = [ids[self.reached], *(ids.get(name, 0) for name in self.more)]
        return LaneMark(_joined(parts), wave_id if same else "another")


def _parts(place: Place) -> list[int]:
    """A place as numbers of 64 bits, the last digits first; a narrow one is the first of them."""
    text = text_of(place)
    if place <= NARROW:
        return [int(text), *[0] * _MORE]
    whole = text.zfill(_DIGITS * (1 + _MORE))
    return [int(whole[at - _DIGITS : at]) for at in range(len(whole), 0, -_DIGITS)]


def _joined(parts: Sequence[int]) -> Place:
    """The place that was taken apart so."""
    first, *more = parts
    if not any(more):
        return read_place(str(first))
    digits = "".join(f"{part:0{_DIGITS}d}" for part in reversed(parts))
    return read_place(digits.lstrip("0"))


@lru_cache(maxsize=20_000)
def mark_ids(installation: str, lane: LaneId) -> MarkIds:
    """The ids of a lane of one store's drivers."""
    parts = (installation, lane.use_case, lane.tenant, str(lane.name))
    base = _PREFIX + "/".join(quote(part, safe="") for part in parts)
    return MarkIds(f"{base}/reached", f"{base}/wave")


class IdLog:
    """Our transaction ids in a table's log, as of a version."""

    def __init__(self, home: Home) -> None:
        """Take where the table is; nothing is read yet."""
        self._home = home
        self._version = -1
        self._ids: dict[str, int] = {}

    def at(self, version: int) -> Mapping[str, int]:
        """What the log says up to a version; versions are asked for in their order.

        Raises:
            SinkUnavailable: the log lacks some of it; what a disk says is raised as it is.
        """
        if version - self._version > _MOST_COMMITS or not self._follow(version):
            self._begin_at_checkpoint(version)
            if not self._follow(version):
                raise SinkUnavailable(f"{self._home.where}: commits up to {version} are not there")
        return self._ids

    def newest(self) -> int:
        """Read on to the newest commit that is there; its version."""
        while (text := self._home.read(commit_path(self._version + 1))) is not None:
            self.given(self._version + 1, text)
        return self._version

    def given(self, version: int, commit: bytes) -> None:
        """Take a commit that was read for something else, if it is the next one."""
        if version == self._version + 1:
            self._ids.update(_ids_in(commit))
            self._version = version

    def _follow(self, version: int) -> bool:
        """Read commits up to a version; False where one was cleaned away."""
        for number in range(self._version + 1, version + 1):
            text = self._home.read(commit_path(number))
            if text is None:
                return False
            self.given(number, text)
        return True

    def _begin_at_checkpoint(self, version: int) -> None:
        found = self._newest_checkpoint(version)
        if found is None or found[0] <= self._version:
            return
        self._version, names = found
        self._ids = {}
        for name in names:
            file = self._home.parquet(f"{LOG}/{name}")
            txns = pq.read_table(file, columns=["txn"])["txn"].combine_chunks()
            ids, numbers = (pc.struct_field(txns, part) for part in ("appId", "version"))
            both = zip(ids.to_pylist(), numbers.to_pylist(), strict=True)
            self._ids.update({i: number for i, number in both if i and i.startswith(_PREFIX)})

    def _newest_checkpoint(self, version: int) -> tuple[int, list[str]] | None:
        """Looked for among the newest files first, since a log may have very many."""
        for first in (max(0, version - _MOST_COMMITS), 0):
            names = self._home.names_in_log(after=f"{first:020d}")
            if (found := _newest_checkpoint(names, version)) is not None or first == 0:
                return found
        return None


def _ids_in(commit: bytes) -> Iterator[tuple[str, int]]:
    """Our ids in the text of a commit: one JSON object a line."""
    for line in commit.splitlines():
        if line.lstrip(b'{ "').startswith(b"txn"):
            txn = orjson.loads(line)["txn"]
            if txn["appId"].startswith(_PREFIX):
                yield txn["appId"], txn["version"]


def _newest_checkpoint(names: Iterable[str], version: int) -> tuple[int, list[str]] | None:
    """The newest whole checkpoint up to a version, with the files of it."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in names:
        match = _CHECKPOINT.fullmatch(name)
        if match is not None and int(match[1]) <= version:
            found.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    whole = {key: files for key, files in found.items() if len(files) == key[1]}
    if not whole:
        return None
    newest = max(whole)
    return newest[0], sorted(whole[newest])
