"""Some tenants' visits by the front door: posted to the gateway with the tenant's own key.

What the tenants' developers would do with a client for HTTP: a few lines of JSON a request, once a
moment, and on trouble not to believe that a request without an answer had no effect. Here Kafka
itself can be asked how far a lane came, so after any trouble the visits go on from there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import groupby
from urllib.parse import urlsplit

from headrace.demo.visits import Visit, counted, read_visits, unsent
from headrace.errors import BrokerUnavailable
from headrace.ports import Log

#: whose visits come by the gateway; the others' come by Kafka
POSTED = ("presentations", "projects")
#: visits of a request; few, so that one can be watched coming in
_MOST_VISITS = 100
_EVERY_S = 0.25
_ANSWER_S = 60.0
#: troubles in a row after which something is wrong: a broker may be away for some seconds
_MOST_TROUBLES = 240

#: a visit, and the second after the start at which it is due
Due = tuple[float, Visit]


@dataclass(slots=True)
class Poster:
    """Posts visits from a thread of its own."""

    url: str
    #: by tenant
    keys: Mapping[str, str]
    #: says how far lanes came
    log: Log
    error: Exception | None = None
    #: not acknowledged yet, in the order of the file
    _left: list[Due] = field(default_factory=list)
    _thread: threading.Thread | None = None

    @property
    def left(self) -> int:
        """Visits that are not acknowledged."""
        return len(self._left)

    def start(self, visits: Sequence[Due], stop: threading.Event) -> None:
        """Post them when they are due, until all are or ``stop`` is set."""
        self._left = list(visits)
        self._thread = threading.Thread(target=self._run, args=(stop,), name="poster", daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait for its end."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self, stop: threading.Event) -> None:
        place = urlsplit(self.url)
        assert place.hostname is not None, self.url
        began_s, troubles = time.monotonic(), 0
        with closing(HTTPConnection(place.hostname, place.port, timeout=_ANSWER_S)) as line:
            while self._left and not stop.wait(_EVERY_S):
                elapsed_s = time.monotonic() - began_s
                try:
                    if troubles:
                        self._look_again()
                    due = [entry for entry in self._left if entry[0] <= elapsed_s]
                    self._post_all(line, [visit for _, visit in due])
                except (OSError, HTTPException, BrokerUnavailable) as trouble:
                    line.close()
                    troubles += 1
                    if troubles > _MOST_TROUBLES:
                        self.error = BrokerUnavailable(f"visits cannot be posted: {trouble}")
                        return
                else:
                    self._left, troubles = self._left[len(due) :], 0

    def _post_all(self, line: HTTPConnection, visits: list[Visit]) -> None:
        by_tenant = sorted(visits, key=lambda visit: visit.tenant)
        for tenant, its in groupby(by_tenant, key=lambda visit: visit.tenant):
            together = list(its)
            for first in range(0, len(together), _MOST_VISITS):
                self._post(line, tenant, together[first : first + _MOST_VISITS])

    def _post(self, line: HTTPConnection, tenant: str, visits: list[Visit]) -> None:
        headers = {
            "Authorization": f"Bearer {self.keys[tenant]}",
            "Content-Type": "application/x-ndjson",
        }
        body = b"\n".join(visit.as_json() for visit in visits)
        line.request("POST", "/v1/events/visit", body, headers)
        answer = line.getresponse()
        told = answer.read()
        if answer.status != 202:
            raise BrokerUnavailable(f"{answer.status}: {told[:500].decode(errors='replace')}")

    def _look_again(self) -> None:
        """Leave out what is in Kafka by now."""
        ends = counted(self.log)
        missing = {visit.line for visit in unsent(posted(read_visits()), ends)}
        self._left = [entry for entry in self._left if entry[1].line in missing]


def posted(visits: Iterable[Visit]) -> list[Visit]:
    """Those that come by the gateway."""
    return [visit for visit in visits if visit.tenant in POSTED]
