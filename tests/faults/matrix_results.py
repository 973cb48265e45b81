"""The results of the matrix: a line of JSON for each row that was run, if somebody keeps them."""

import json
import os
from pathlib import Path

VARIABLE = "HEADRACE_FAULT_RESULTS"


def note(row, verdicts, *, faults, records):
    """Add a line to the results.

    Args:
        row: the fault's name.
        verdicts: what became of everything, by the use case of the rig with that guarantee.
        faults: how many there were.
        records: how many were held against the ledger.
    """
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    told = {
        name: {
            "lost": len(each.lost),
            "twice": len(each.twice),
            "foreign": len(each.foreign),
            "out_of_order": len(each.out_of_order),
        }
        for name, each in verdicts.items()
    }
    line = {"row": row, "faults": faults, "records": records, "found": told}
    with Path(path).open("a") as file:
        file.write(json.dumps(line) + "\n")
