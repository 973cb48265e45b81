"""How much of a bounded thing one of many may hold, so that nobody shuts the others out.

Memory and queues are held until somebody else has answered, which for a partition without a leader
may take days. With a fixed part for each, four who hold on to theirs leave nothing to the fifth. So
each may hold a quarter of what the others leave: the first one a quarter of all, the next a quarter
of the rest, and however many there are, something is left (dynamic thresholds, Choudhury and Hahne
1998).

What comes as one piece can be larger than that. It is let in for somebody who holds nothing, as
long as a quarter of all stays free.
"""

from __future__ import annotations


def may_hold(most: int, taken: int, own: int, more: int) -> bool:
    """Whether somebody may hold more.

    Args:
        most: what there is for all.
        taken: what all hold.
        own: what of it is theirs.
        more: what they want.
    """
    if taken == 0:
        return True
    if own == 0 and 4 * (taken + more) <= 3 * most:
        return True
    return 4 * (own + more) <= most - (taken - own)
