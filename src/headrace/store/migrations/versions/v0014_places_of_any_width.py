"""Places that are as wide as their log needs, and how many records are between two of them.

Before, a place was a number of 64 bits, and what is between two was found by subtracting them. So
places become text, of the same digits; failures are told how many records they have and where their
lane goes on behind one, and recorded slices how many records they were planned with. On the way
back a store with places that do not fit in 64 bits, or with slices whose ends nobody knew, is
refused and stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from headrace.errors import ConfigError

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_MOST = 2**63 - 1
#: columns of places, and whether each has one in every row
_COLUMNS = (
    ("headrace_positions", "next_offset", False),
    ("headrace_failures", "from_offset", False),
    ("headrace_failures", "until_offset", False),
    ("headrace_failures", "record_offset", True),
)
_BOUNDS = ("from_offset", "until_offset")


def upgrade() -> None:
    """Make places text."""
    op.add_column(
        "headrace_failures",
        sa.Column("records", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.add_column("headrace_failures", sa.Column("record_behind", sa.Text))
    op.execute("UPDATE headrace_failures SET records = until_offset - from_offset")
    op.execute(
        "UPDATE headrace_failures SET record_behind = CAST(record_offset + 1 AS TEXT) "
        "WHERE record_offset IS NOT NULL"
    )
    for table, name, nullable in _COLUMNS:
        _remake(table, name, sa.Text(), "TEXT", nullable=nullable)
    _change_intents(_widened)
    _change_ends(str)


def downgrade() -> None:
    """Make places numbers again."""
    for where, place in _every():
        if not place.isdigit() or int(place) > _MOST:
            raise ConfigError(
                f"the store has a {where} at {place}, and an earlier Headrace has no room for a "
                "place of so many digits: remove its stream first, or stay with this version; "
                "nothing was changed"
            )
    for table, name, nullable in _COLUMNS:
        _remake(table, name, sa.BigInteger(), "BIGINT", nullable=nullable)
    op.drop_column("headrace_failures", "record_behind")
    op.drop_column("headrace_failures", "records")
    _change_intents(_narrowed)
    _change_ends(int)


def _remake(
    table: str, name: str, kind: sa.types.TypeEngine[Any], cast: str, *, nullable: bool
) -> None:
    """A column of another type, which SQLite has only as another column."""
    default = None if nullable else "0"
    op.add_column(table, sa.Column("place_new", kind, nullable=nullable, server_default=default))
    op.execute(f"UPDATE {table} SET place_new = CAST({name} AS {cast})")  # noqa: S608
    op.drop_column(table, name)
    op.alter_column(table, "place_new", new_column_name=name)


def _widened(piece: dict[str, Any]) -> None:
    if all(name in piece for name in _BOUNDS):
        piece["records"] = piece["until_offset"] - piece["from_offset"]
    piece |= {name: str(piece[name]) for name in _BOUNDS if name in piece}


def _narrowed(piece: dict[str, Any]) -> None:
    piece.pop("records", None)
    piece |= {name: int(piece[name]) for name in _BOUNDS if name in piece}


def _change_intents(change: Callable[[dict[str, Any]], None]) -> None:
    """Change recorded slices."""
    for number, wave in _intents():
        for piece in _slices(wave):
            change(piece)
        text = json.dumps(wave, separators=(",", ":"))
        kept = sa.text("UPDATE headrace_intents SET wave = :wave WHERE id = :id")
        op.get_bind().execute(kept, {"wave": text, "id": number})


def _change_ends(changed: Callable[[Any], object]) -> None:
    """Change where reruns end."""
    for use_case, ends in _ends():
        text = json.dumps({lane: changed(end) for lane, end in ends.items()})
        kept = sa.text("UPDATE headrace_deployments SET ends_at = :text WHERE use_case = :name")
        op.get_bind().execute(kept, {"text": text, "name": use_case})


def _every() -> Iterator[tuple[str, str]]:
    """All places that are kept anywhere, and where."""
    for table, name, _ in _COLUMNS:
        asked = f"SELECT {name} FROM {table} WHERE {name} IS NOT NULL"  # noqa: S608
        what = "position" if name == "next_offset" else "failure"
        yield from ((what, place) for place in op.get_bind().execute(sa.text(asked)).scalars())
    for _, wave in _intents():
        for piece in _slices(wave):
            yield from (("recorded slice", piece[name]) for name in _BOUNDS if name in piece)
    for _, ends in _ends():
        yield from (("end of a rerun", end) for end in ends.values())


def _intents() -> list[tuple[int, dict[str, Any]]]:
    rows = op.get_bind().execute(sa.text("SELECT id, wave FROM headrace_intents ORDER BY id"))
    return [(row.id, json.loads(row.wave)) for row in rows]


def _slices(wave: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (piece for bin_ in wave["bins"] for piece in bin_["slices"])


def _ends() -> list[tuple[str, dict[str, Any]]]:
    asked = "SELECT use_case, ends_at FROM headrace_deployments WHERE ends_at IS NOT NULL"
    rows = op.get_bind().execute(sa.text(asked))
    return [(row.use_case, json.loads(row.ends_at)) for row in rows]
