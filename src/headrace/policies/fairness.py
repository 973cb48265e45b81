"""What a stream is owed after its slice came back.

The planner shares out predicted seconds, and predictions are wrong: a tenant whose records suddenly
cost ten times as much would go on getting ten times its share until the cost model has learnt it.
So the difference between what was predicted and what was used goes to the stream's credit: the plan
took the predicted seconds from it, and this puts right what it really had.

Surplus round robin does the same with packets whose length is known only when they are sent
(H. Adiseshu, G. Parulkar and G. Varghese, "A reliable and scalable striping protocol", SIGCOMM
1996). It does not say what a slice will cost; that is `cost`.
"""

from __future__ import annotations

import math


def settled(
    credit_s: float,
    predicted_s: float,
    measured_s: float,
    most_s: float,
    most_debt_s: float | None = None,
) -> float:
    """The credit after a slice that was predicted to take so long took so long.

    Args:
        credit_s: task-seconds owed before; below zero is a debt.
        predicted_s: what the plan took it for.
        measured_s: task-seconds it used; 0 if it was never begun. Not finite or negative is a
            broken clock and changes nothing.
        most_s: credit and debt are kept up to this, so that nothing is paid for for ever.
        most_debt_s: the same for debt, where it is not the same.

    Returns:
        A credit between ``-most_debt_s`` and ``most_s``.
    """
    if not math.isfinite(measured_s) or measured_s < 0.0:
        measured_s = predicted_s
    least_s = -(most_s if most_debt_s is None else most_debt_s)
    return min(most_s, max(least_s, credit_s + predicted_s - measured_s))
