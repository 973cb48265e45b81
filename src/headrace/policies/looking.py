"""How soon a driver looks again at what operators changed.

Whoever changes anything, also a tenant with its own key, has each driver read all its streams
again, on its turn. With 3,000 streams that takes some 0.2 s, and five changes a second took all of
the turn. So after a look the next one waits for nine times as long as that one took: looks then
take a tenth of the turn at most, however often somebody changes something.

But a suspended stream has to stop soon. So no look waits for longer than a second, which is when
one took a ninth of it; where one takes longer than that the part grows, to a fifth at 0.25 s. What
is changed when nothing was for that long is seen in the next turn.
"""

from __future__ import annotations

#: how many times what a look took the next one waits
_TIMES = 9.0
#: no change waits for longer
MOST_S = 1.0


def rest_s(took_s: float) -> float:
    """Seconds from the end of a look that took so long to the begin of the next."""
    return min(MOST_S, max(0.0, _TIMES * took_s))
