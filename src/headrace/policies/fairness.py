"""What a stream is owed after its slice came back.

The planner shares out predicted seconds, and predictions are wrong: a tenant whose records suddenly
cost ten times as much would go on getting ten times its share until the cost model has learnt it.
So the difference between what was predicted and what was used goes to the stream's credit.
"""

from __future__ import annotations


def settled(credit_s: float, predicted_s: float, measured_s: float, most_s: float) -> float:
    """The credit after a slice that was predicted to take so long took so long.

    Args:
        credit_s: task-seconds owed before; below zero is a debt.
        predicted_s: what the plan took it for.
        measured_s: what it used.
        most_s: credit and debt are kept up to this.
    """
    return min(most_s, max(-most_s, credit_s + predicted_s - measured_s))
