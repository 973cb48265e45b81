"""Handlers of signals, asked for and set without names.

`signal.signal` and `signal.getsignal` look for a name of each answer, by raising an error where it
has none. A worker does so thirty times for each call of a handler, and that took a tenth of what an
empty slice costs. These are the same functions of C, before the names.

What a caller gets back is what it may set again; it compares handlers by ``is``, and says no name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_C = importlib.import_module("_signal")

handler_of: Callable[[int], Any] = _C.getsignal
set_handler: Callable[[int, Any], Any] = _C.signal
#: to set so that a signal is dropped
IGNORED: Any = _C.SIG_IGN
