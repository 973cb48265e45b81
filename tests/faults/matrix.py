"""What the rows of the matrix share: how often, under which marks, and where results are kept.

The environment says how often and where. Without it a fault is tried once or twice, and nobody
keeps what was found.
"""

import json
import os
from pathlib import Path

import pytest

RESULTS = "HEADRACE_FAULT_RESULTS"
#: how often a fault is tried of which there can be many
SEEDS = int(os.environ.get("HEADRACE_FAULT_SEEDS", "1"))
#: whether faults last as long as they do at the worst
FULL = SEEDS > 1
#: of tests that run a service of their own
SERVICE = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1800)]
#: of those that only ``make faults`` runs
ROW = [*SERVICE, pytest.mark.matrix]
#: of a use case whose target is killed or away: by lane, and with buckets of keys
ORDERS = ["lane", pytest.param("key", marks=pytest.mark.matrix)]


def in_order(code, order):
    """A use case of exactly-once, in one of these orders."""
    once = 'guarantee="exactly-once"'
    assert once in code
    return code if order == "lane" else code.replace(once, f'{once}, order="{order}", buckets=4')


def row_of(row, order):
    """The name of a row where the use case has an order."""
    return row if order == "lane" else f"{row}; order {order}"


def note(row, verdicts, *, faults, records):
    """Add a line to the results.

    Args:
        row: the fault's name.
        verdicts: what became of everything, by the use case of the rig with that guarantee.
        faults: how many there were.
        records: how many were held against the ledger.
    """
    path = os.environ.get(RESULTS)
    if path is None:
        return
    told = {
        name: {
            "lost": len(verdict.lost),
            "twice": len(verdict.twice),
            "foreign": len(verdict.foreign),
            "out_of_order": len(verdict.out_of_order),
        }
        for name, verdict in verdicts.items()
    }
    line = {"row": row, "faults": faults, "records": records, "found": told}
    with Path(path).open("a") as file:
        file.write(json.dumps(line) + "\n")
