"""How long something holds the interpreter, so that no other thread of the process goes on.

A driver imports a version beside its turns, in a thread. But what is written in C, such as a large
pickle that is read, may let no other thread go on for all of its time: then there are no turns, and
after a lease the driver is given up for dead. So in the process that checks a version a thread
beats, and looks how much the process has computed from one beat to the next, and at which line that
was.

It is time of computing, or a busy machine, where a beat comes late, would refuse innocents; and no
more than has passed, or many threads of one library would. So what holds the interpreter and waits
meanwhile is not found.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from dataclasses import dataclass, field

# As they are now: a module may put others in their place.
from time import monotonic, process_time, sleep

_EVERY_S = 0.05


@dataclass(slots=True)
class Beats:
    """Beats beside the thread that made it, as long as the process lives."""

    #: in which a line is looked for
    files: Collection[str]
    #: longest time between two beats, and the line then
    held_s: float = 0.0
    line: tuple[str, int] | None = None
    _of: int = field(default_factory=threading.get_ident)

    def begin(self) -> None:
        """Start to beat."""
        threading.Thread(target=self._run, name="headrace-beats", daemon=True).start()

    def _run(self) -> None:
        passed_s, computed_s = monotonic(), process_time()
        while True:
            sleep(_EVERY_S)
            now_s, now_computed_s = monotonic(), process_time()
            held_s = min(now_s - passed_s, now_computed_s - computed_s)
            if held_s > self.held_s:
                self.line, self.held_s = self._where(), held_s
            passed_s, computed_s = now_s, now_computed_s

    def _where(self) -> tuple[str, int] | None:
        # It had to give way as soon as it could, so it is there still.
        frame = sys._current_frames().get(self._of)
        while frame is not None and frame.f_code.co_filename not in self.files:
            frame = frame.f_back
        return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
