"""Visits that are posted: after any trouble they go on from where Kafka says a lane is."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.connectors.kafka import OFFSETS
from headrace.demo.poster import POSTED, Poster, posted
from headrace.demo.visits import LANES, read_visits, unsent
from headrace.errors import BrokerUnavailable
from headrace.model.lane_names import named

KEYS = {tenant: f"hr_{tenant}" for tenant in POSTED}


class Gateway:
    """Keeps lines as Kafka would, and answers as it is told to."""

    places = OFFSETS

    def __init__(self):
        #: statuses of the next answers, and whether the lines are kept all the same
        self.troubles = []
        self.lanes = dict.fromkeys(LANES, 0)
        self.lines = []
        self.broken = False

    def take(self, authorization, body):
        status, kept = self.troubles.pop(0) if self.troubles else (202, True)
        if kept:
            for line in body.split(b"\n"):
                visit = next(known for known in VISITS if known.line == json.loads(line)["line"])
                assert authorization == f"Bearer {KEYS[visit.tenant]}"
                self.lines.append(visit.line)
                lane = next(own for own in LANES if own == named(visit.topic, visit.partition))
                self.lanes[lane] += 1
        return status

    def end_offsets(self, _lanes):
        if self.broken:
            self.broken = False
            raise BrokerUnavailable
        return dict(self.lanes)


VISITS = posted(read_visits())[:40]


@contextmanager
def answering(gateway):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(gateway.take(self.headers["Authorization"], body))
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_lane_of_which_nobody_knows_the_end_is_not_taken_for_empty():
    with pytest.raises(BrokerUnavailable, match="where each lane ends"):
        unsent(VISITS, dict.fromkeys(LANES[1:], 0))


@pytest.mark.parametrize(
    "troubles",
    [[], [(503, False)], [(503, True)], [(503, True), (202, True), (429, False)]],
    ids=["none", "not kept", "kept and not said", "several"],
)
def test_every_visit_is_kept_once_and_in_order_whatever_is_answered(troubles, monkeypatch):
    monkeypatch.setattr("headrace.demo.poster._EVERY_S", 0.01)
    monkeypatch.setattr("headrace.demo.poster.read_visits", lambda: VISITS)
    gateway = Gateway()
    gateway.troubles, gateway.broken = list(troubles), bool(troubles)
    with answering(gateway) as url:
        poster = Poster(url, KEYS, gateway)
        poster.start([(0.0, visit) for visit in VISITS], threading.Event())
        poster.join(20)
    assert poster.error is None
    assert poster.left == 0
    for tenant in POSTED:
        its = [known.line for known in VISITS if known.tenant == tenant]
        assert [line for line in gateway.lines if line in its] == its
