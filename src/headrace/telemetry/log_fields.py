"""The fields of a log line, declared once.

Somebody who looks for a tenant's trouble filters lines by a field, and finds nothing if one line
calls it ``stream``, another ``name`` and a third has it in its text. So every field is named here,
a test holds every call to it, and what a line is about is written the same way everywhere: by
``of_stream`` and ``of_slice``, or by ``of_wave``.

How lines look is the terminal's matter (`cli/console.py`).
"""

from __future__ import annotations

from headrace.model.streams import Slice, StreamId
from headrace.model.waves import Wave

#: environment variable by which a driver tells workers on its machine how its log looks, and from
#: which level on: ``json INFO``
WORKER_LOGS = "HEADRACE_WORKER_LOGS"

#: name -> what it says
FIELDS = {
    # what a line is about
    "driver": "name of a driver; of the process itself, unless the line says otherwise",
    "tenant": "a tenant",
    "use_case": "a use case",
    "stream": "a stream, as tenant/use-case",
    "slice": "a slice, as lane from..until: acme.visits[3] 40..64",
    "wave": "id of a wave",
    "topic": "a topic of Kafka, or a stream of Kinesis",
    "topics": "several, the first by name",
    "table": "a table of a sink, an index or the keys of entries, and where it is",
    "subject": "a subject of a schema registry",
    "schema_id": "number of a schema there",
    "record": "a record, by its sequence number and shard",
    "name": "what a pattern of topics finds to be a tenant's name",
    "offset": "offset of the record that a slice stopped at",
    "failure": "number of the open failure, as 'headrace quarantine show' takes it",
    "logger": "of a handler's own line: its logger, or stdout or stderr",
    # what happened
    "error": "what went wrong, in one line",
    "why": "the reason for what was done",
    "again": "whether a wave that failed runs again as it was",
    "again_in_s": "seconds until it is tried again",
    "tries": "temporary troubles in a row",
    "attempts": "tries of a record that count against the use case's retries",
    "waves": "ids of waves that did not come back",
    "parts": "in how many parts streams run on",
    "streams": "how many streams",
    "tenants": "how many tenants",
    "lanes": "how many lanes",
    "failures": "how many failures",
    "seconds": "how long it took, takes by now, or may take",
    "gate": "what a pace is for: a use case or a kind of sink",
    "rate_per_s": "records a second that are allowed; none is no limit",
    "slots": "tasks at once that are wanted",
    "slots_before": "the same before",
    "backlog_s": "predicted seconds to work off what waits",
    "released": "executors given back",
    "pids": "ids of processes",
    "digest": "beginning of the digest of a use case's module",
    # the doors
    "who": "name of the caller",
    "action": "method and path of a request",
    "status": "HTTP status that it was answered with",
    "client": "address that a request came from",
    "left_out": "lines of the kind that were not written before this one",
    "mirror": "what shows positions to other tools: a consumer group, or a lease table",
    "server": "what stands behind a door: Kafka, or the store",
    "meanwhile": "what a door answers while it does not answer itself",
    "incident": "number that the caller was given, to find this line by",
    # servers and processes
    "bootstrap_servers": "addresses of Kafka",
    "folder": "where a server keeps its data",
    "port": "where it listens",
    "url": "where it is",
    "master": "Spark's master",
    "cores": "how many cores",
    "processes": "how many processes",
    "files": "how many files and connections this process may have open",
    "wanted": "how many it should have",
}


def of_stream(stream: StreamId) -> dict[str, str]:
    """The fields of a line about a stream."""
    return {"tenant": stream.tenant, "use_case": stream.use_case, "stream": str(stream)}


def of_slice(piece: Slice) -> dict[str, str]:
    """The fields of a line about a slice."""
    return {**of_stream(piece.lane.stream), "slice": str(piece)}


def of_wave(wave: Wave) -> dict[str, str]:
    """The fields of a line about a wave."""
    return {"use_case": wave.use_case, "wave": wave.id}
