"""Writes the results of the last runs of matrix and simulation into docs/guarantees.md.

They stand between marks. The table is made of docs/fault-results.jsonl alone, one line a row of the
matrix, of which the last one counts, and what is said of the simulation of
docs/simulation-results.json, so that what the document claims is what was seen. With
``--check`` nothing is written, and it is an error if the document says something else.
"""

import json
import sys
import textwrap
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
GUARANTEES = {
    "transacts": "exactly-once, transaction",
    "intends": "exactly-once, intent",
    "repeats": "at-least-once",
    "claims": "at-most-once",
    "transfers": "exactly-once, Kafka to Kafka",
}


def table(lines):
    """The results as a Markdown table."""
    head = ["fault", "faults", "records"] + [
        f"{guarantee}: lost / twice" for guarantee in GUARANTEES.values()
    ]
    rows = [head, ["---"] * len(head)]
    totals = [0, 0]
    for line in lines:
        found = line["found"]
        cells = [
            f"{found[name]['lost']} / {found[name]['twice']}" if name in found else ""
            for name in GUARANTEES
        ]
        rows.append([line["row"], str(line["faults"]), str(line["records"]), *cells])
        totals = [totals[0] + line["faults"], totals[1] + line["records"]]
    rows.append(["**all**", str(totals[0]), str(totals[1]), *[""] * len(GUARANTEES)])
    foreign = sum(kinds["foreign"] for line in lines for kinds in line["found"].values())
    late = Counter()
    for line in lines:
        for use_case, kinds in line["found"].items():
            late[use_case == "claims"] += kinds["out_of_order"]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        f"{text}\n\nOf another tenant: {foreign}. Out of order: {late[False]}; and {late[True]} "
        "effects of at-most-once, which a task that had been asleep made late."
    )


def simulated(results):
    """What the simulation did, as a paragraph."""
    seeds, failed, took_s, jobs = (results[what] for what in ("seeds", "failed", "took_s", "jobs"))
    counts = ", ".join(f"{what} {count:,}" for what, count in results["counts"].items())
    given = ", ".join(f"{seeds:,} with {odds}" for odds, seeds in results["odds"].items())
    odds = f" Of these seeds the odds of some faults were given: {given}." if given else ""
    return textwrap.fill(
        f"The last run of the simulation: {seeds:,} seeds in {took_s:,} s, {jobs} at a time, of "
        f"which {failed or 'none'} failed.{odds} What happened in them: {counts}.",
        100,
        break_on_hyphens=False,
    )


def between(text, name, made):
    """The text with something else between two marks."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{made}\n\n{end}{after}"


def main(args):
    """Write the results, or check them."""
    told = map(json.loads, (DOCS / "fault-results.jsonl").read_text().splitlines())
    lines = list({line["row"]: line for line in told}.values())
    path = DOCS / "guarantees.md"
    text = path.read_text("utf-8")
    results = json.loads((DOCS / "simulation-results.json").read_text())
    made = between(text, "simulation", simulated(results))
    made = between(made, "fault matrix", table(lines))
    if "--check" not in args:
        path.write_text(made, "utf-8")
    elif made != text:
        sys.exit("docs/guarantees.md does not show the results of the last run: make faults")


if __name__ == "__main__":
    main(sys.argv[1:])
