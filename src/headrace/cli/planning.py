"""`headrace plan`: what the planner makes of a snapshot, for anyone to try."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.console import err, shown_errors
from headrace.connectors.kafka import OFFSETS
from headrace.errors import ConfigError
from headrace.planning import check, plan
from headrace.telemetry.snapshot_json import plan_to_json, snapshot_from_json


def plan_file(
    snapshot: Annotated[Path, typer.Argument(help="A snapshot as JSON; - reads stdin.")],
) -> None:
    """Print the plan of a snapshot as JSON.

    The forms are in docs/schemas: snapshot.schema.json, plan.schema.json, example-snapshot.json.
    """
    with shown_errors():
        try:
            text = sys.stdin.read() if str(snapshot) == "-" else snapshot.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise ConfigError(f"{snapshot}: {exc}") from exc
        asked = snapshot_from_json(text)
        made = plan(asked, OFFSETS)
        print(plan_to_json(made))  # noqa: T201
        for fault in check(asked, made, OFFSETS):
            err.print(f"fault: {fault}", markup=False)
