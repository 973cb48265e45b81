"""A DynamoDB for tests: moto's, over HTTP, behind a door that can refuse, lose answers and be away.

It is not Amazon's own. DynamoDB Local is not taken: its licence is for those who have an account.
What moto keeps it keeps in this process, whoever is away meanwhile. Requests are let in one at a
time, since moto looks and writes in two steps.
"""

import io
import json
import logging
import socket
import threading
import time
import uuid
from collections import deque

import boto3
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from headrace.ports import Server

REGION, USER, SECRET = "eu-central-1", "AKIAHEADRACE", "not-a-secret"
#: what becomes of a put: it is done and nobody hears of it
LOST = "lost"
THROTTLED = (
    "ProvisionedThroughputExceededException",
    "The level of configured throughput is exceeded",
)


class _AtOnce(MotoRequestHandler):
    """The body of an answer, sent after its head, does not wait for an echo of that."""

    disable_nagle_algorithm = True


class DynamoDb:
    """A service on a port that stays the same; a context manager.

    ``fates`` are those of the next puts: ``LOST``, a code and a message to refuse it with, or None.
    After these ``fate_of`` is asked, with the operation and its request.
    """

    def __init__(self):
        self.fates, self.asked = deque(), []
        self.fate_of = lambda operation, request: None
        #: whether it hangs up on everybody
        self.away = False
        #: puts that it takes a second; None: all
        self.per_s = None
        #: that it did not take
        self.refused = 0
        self._room, self._filled_s = 0.0, time.monotonic()
        self._app = DomainDispatcherApplication(create_backend_app)
        self._one_at_a_time = threading.Lock()
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._http = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_AtOnce
        )
        self._http.daemon_threads = True
        self.port = self._http.server_address[1]
        self.client = boto3.client(
            "dynamodb",
            region_name=REGION,
            endpoint_url=self.endpoint,
            aws_access_key_id=USER,
            aws_secret_access_key=SECRET,
        )

    def __enter__(self):
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.client.close()
        self._http.shutdown()
        self._http.server_close()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def server(self):
        """The connection to it."""
        return Server(f"dynamodb://{REGION}?endpoint={self.endpoint}", USER, SECRET)

    def items(self, table):
        """All that is in a table, as plain values; nothing if there is no table."""
        found, start = [], {}
        try:
            while True:
                page = self.client.scan(TableName=table, ConsistentRead=True, **start)
                found += page["Items"]
                if "LastEvaluatedKey" not in page:
                    break
                start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}
        except self.client.exceptions.ResourceNotFoundException:
            return []
        return [
            {name: next(iter(value.values())) for name, value in item.items()} for item in found
        ]

    def puts(self):
        """The requests to put that came so far."""
        return [request for operation, request in self.asked if operation == "PutItem"]

    def _answer(self, environ, start):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        request = json.loads(body or b"{}")
        self.asked.append((operation, request))
        fate = self._fate(operation, request)
        if self.away:
            return self._hung_up(environ, start)
        if isinstance(fate, tuple):
            return _refused(start, *fate)
        with self._one_at_a_time:
            # What moto meets is told at once, so all of it is done here.
            answer = list(self._app(environ, start))
        return self._hung_up(environ, start) if fate == LOST else answer

    def _fate(self, operation, request):
        if operation == "PutItem" and self.fates:
            return self.fates.popleft()
        if operation == "PutItem" and self.per_s is not None and not self._has_room():
            return THROTTLED
        return self.fate_of(operation, request)

    def _has_room(self):
        with self._one_at_a_time:
            now_s = time.monotonic()
            more = (now_s - self._filled_s) * self.per_s
            self._room, self._filled_s = min(self.per_s / 4, self._room + more), now_s
            if self._room < 1:
                self.refused += 1
                return False
            self._room -= 1
            return True

    def _hung_up(self, environ, start):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        start("500 Away", [])
        return []


def _refused(start, code, message=""):
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    body = json.dumps({"__type": kind, "message": message}).encode()
    headers = [("Content-Type", "application/x-amz-json-1.0"), ("Content-Length", str(len(body)))]
    start("500 No" if code.startswith("Internal") else "400 No", headers)
    return [body]


def a_name():
    """One that nobody else uses."""
    return f"t{uuid.uuid4().hex[:20]}"
