"""Sinks and handlers that do as little as possible, so that what is measured is the way to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.ports import Effect, Site, Written
from headrace.use_cases import UseCase, use_case


@dataclass(frozen=True)
class Nowhere:
    """Takes everything and keeps nothing, as Spark's `noop` writer does."""

    @property
    def exactly_once(self) -> None:
        """It has no effect to repeat."""
        return

    def prepare(self, site: Site) -> None:
        """Nothing to make."""

    def open(self, site: Site) -> Nowhere:
        """It is its own writer."""
        return self

    def write(self, effects: Sequence[Effect]) -> Sequence[Written]:
        """Everything is fine."""
        return [Written()] * len(effects)

    def close(self) -> None:
        """Nothing to give up."""


def _pass(table: pa.Table, _context: Any) -> pa.Table:
    return table


def passing() -> UseCase:
    """A use case that hands every record on, to nowhere."""
    return use_case(topic="{tenant}.visits", sink=Nowhere(), name="pass")(_pass)
