"""The years that a calendar here has, 1 to 9999: what Python, Arrow and both databases can name.

Each of these numbers counts from the beginning of 1970, in UTC.
"""

from __future__ import annotations

import datetime as dt

_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
DAY_S = 86_400
DAY_US = DAY_S * 1_000_000
FIRST_DAY = dt.date.min.toordinal() - _EPOCH_DAY
LAST_DAY = dt.date.max.toordinal() - _EPOCH_DAY
#: whole seconds
FIRST_S, LAST_S = FIRST_DAY * DAY_S, (LAST_DAY + 1) * DAY_S - 1
FIRST_US, LAST_US = FIRST_DAY * DAY_US, (LAST_DAY + 1) * DAY_US - 1
