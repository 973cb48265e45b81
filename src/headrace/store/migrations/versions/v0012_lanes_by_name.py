"""Lanes that have the names their logs give them.

Before, a lane was the number of a partition of its stream's topic, so it is now called
``topic[number]``, wherever one is kept: positions, failures, recorded waves, and the ends of
reruns. What drivers told before is read as it is. On the way back each lane has its number again;
a store with lanes of another form, or of another topic than their stream's, is refused and stays as
it is, for no number tells them apart. What drivers told since is passed over until they tell anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_OPEN = sa.text("state = 'open'")
_NUMBERED = re.compile(r"(.+)\[(0|[1-9][0-9]{0,9})\]", re.DOTALL)
#: the largest number that the column had room for
_MOST = 2**31 - 1

_NAME_POSITIONS = """
INSERT INTO headrace_positions_new (use_case, tenant, lane, next_offset, epoch)
SELECT p.use_case, p.tenant, s.topic || '[' || CAST(p.partition AS TEXT) || ']',
       p.next_offset, p.epoch
FROM headrace_positions p
JOIN headrace_streams s ON s.use_case = p.use_case AND s.tenant = p.tenant
"""
_NAME_FAILURES = """
UPDATE headrace_failures SET lane = topic || '[' || CAST(partition AS TEXT) || ']'
"""
# The topic stands before the number, and a bracket on either side of it.
_NUMBER_POSITIONS = """
INSERT INTO headrace_positions_new (use_case, tenant, partition, next_offset, epoch)
SELECT p.use_case, p.tenant,
       CAST(substr(p.lane, length(s.topic) + 2, length(p.lane) - length(s.topic) - 2) AS INTEGER),
       p.next_offset, p.epoch
FROM headrace_positions p
JOIN headrace_streams s ON s.use_case = p.use_case AND s.tenant = p.tenant
"""
_NUMBER_FAILURES = """
UPDATE headrace_failures SET partition =
    CAST(substr(lane, length(topic) + 2, length(lane) - length(topic) - 2) AS INTEGER)
"""
_LANES = (
    """
    SELECT p.lane, s.topic, 'position' FROM headrace_positions p
    JOIN headrace_streams s ON s.use_case = p.use_case AND s.tenant = p.tenant
    """,
    "SELECT lane, topic, 'failure' FROM headrace_failures",
)


def upgrade() -> None:
    """Give each lane its name."""
    _remake_positions(sa.Column("lane", _NAME, primary_key=True), _NAME_POSITIONS)
    lane = sa.Column("lane", _NAME, nullable=False, server_default="")
    _change_failures(lane, _NAME_FAILURES, "partition")
    _change_intents(lambda lane, topic: f"{topic}[{lane}]")
    _change_ends(lambda lane, topic: f"{topic}[{lane}]")


def downgrade() -> None:
    """Give each lane its number again."""
    for lane, topic, what in _every():
        _number(lane, topic, what)
    number = sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False)
    _remake_positions(number, _NUMBER_POSITIONS)
    partition = sa.Column("partition", sa.Integer, nullable=False, server_default="0")
    _change_failures(partition, _NUMBER_FAILURES, "lane")
    _change_intents(lambda lane, topic: _number(lane, topic, "recorded slice"))
    _change_ends(lambda lane, topic: str(_number(lane, topic, "end of a rerun")))


def _remake_positions(lane: sa.Column[Any], fill: str) -> None:
    """Another key, which SQLite gives to a new table only."""
    op.create_table(
        "headrace_positions_new",
        sa.Column("use_case", _NAME, primary_key=True),
        sa.Column("tenant", _NAME, primary_key=True),
        lane,
        sa.Column("next_offset", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["use_case", "tenant"], ["headrace_streams.use_case", "headrace_streams.tenant"]
        ),
        sqlite_with_rowid=False,
    )
    op.execute(fill)
    op.drop_table("headrace_positions")
    op.rename_table("headrace_positions_new", "headrace_positions")


def _change_failures(lane: sa.Column[Any], fill: str, before: str) -> None:
    op.add_column("headrace_failures", lane)
    op.execute(fill)
    op.drop_index("headrace_open_failures", "headrace_failures")
    op.drop_column("headrace_failures", before)
    op.create_index(
        "headrace_open_failures",
        "headrace_failures",
        ["use_case", "tenant", lane.name],
        unique=True,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    )


def _change_intents(changed: Callable[[Any, str], object]) -> None:
    """Change the lanes of recorded slices, each given with its topic."""
    for number, wave in _intents():
        for piece in _slices(wave):
            piece["lane"][2] = changed(piece["lane"][2], piece["topic"])
        text = json.dumps(wave, separators=(",", ":"))
        kept = sa.text("UPDATE headrace_intents SET wave = :wave WHERE id = :id")
        op.get_bind().execute(kept, {"wave": text, "id": number})


def _change_ends(changed: Callable[[str, str], str]) -> None:
    """Change the lanes that a rerun ends by; it has one stream, and reads its topic."""
    for use_case, topic, ends in _ends():
        text = json.dumps({changed(lane, topic): end for lane, end in ends.items()})
        kept = sa.text("UPDATE headrace_deployments SET ends_at = :text WHERE use_case = :name")
        op.get_bind().execute(kept, {"text": text, "name": use_case})


def _every() -> Iterator[tuple[str, str, str]]:
    """All lanes that are kept anywhere, with the topic whose number they had, and where."""
    for asked in _LANES:
        for lane, topic, what in op.get_bind().execute(sa.text(asked)):
            yield lane, topic, what
    for _, wave in _intents():
        for piece in _slices(wave):
            yield piece["lane"][2], piece["topic"], "recorded slice"
    for _, topic, ends in _ends():
        for lane in ends:
            yield lane, topic, "end of a rerun"


def _number(lane: str, topic: str, what: str) -> int:
    found = _NUMBERED.fullmatch(lane)
    if found is None or found[1] != topic or int(found[2]) > _MOST:
        raise ConfigError(
            f"the store has a {what} of lane {lane!r}, and an earlier Headrace knows no lanes but "
            f"partitions of {topic}: remove its stream and end what is open of it first, or stay "
            "with this version; nothing was changed"
        )
    return int(found[2])


def _intents() -> list[tuple[int, dict[str, Any]]]:
    rows = op.get_bind().execute(sa.text("SELECT id, wave FROM headrace_intents ORDER BY id"))
    return [(row.id, json.loads(row.wave)) for row in rows]


def _slices(wave: dict[str, Any]) -> Iterable[dict[str, Any]]:
    return (piece for bin_ in wave["bins"] for piece in bin_["slices"])


def _ends() -> list[tuple[str, str, dict[str, int]]]:
    """Ends of reruns that have any; where nobody reads, they are of no topic."""
    asked = """
    SELECT d.use_case, coalesce(min(s.topic), '') AS topic, d.ends_at
    FROM headrace_deployments d LEFT JOIN headrace_streams s ON s.use_case = d.use_case
    WHERE d.ends_at IS NOT NULL GROUP BY d.use_case, d.ends_at ORDER BY d.use_case
    """
    rows = op.get_bind().execute(sa.text(asked))
    found = ((row.use_case, row.topic, json.loads(row.ends_at)) for row in rows)
    return [(use_case, topic, ends) for use_case, topic, ends in found if ends]
