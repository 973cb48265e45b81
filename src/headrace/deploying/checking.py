"""Whether a version is fit to run, found out before it is deployed, in a process of its own.

Importing a module runs whatever its author wrote: it may hang, end the process, crash in C, or
start a Spark of its own; and so may pickling its handler and ``prepare`` of its sink. In a driver
that would stop a thousand tenants. So whoever deploys has a child process do all three with a time
limit, and takes its word. The child is in `checking_process.py`; it gets addresses and credentials
through its standard input, and answers in lines of JSON. It has what it packed unpacked by a
process that has imported nothing, as a worker would. It also refuses what would hold the
interpreter, so that a driver had no turns meanwhile (`beats.py`).

A driver still imports what was deployed, in its own process. What passes here and fails there is
refused there.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError, ConnectionDown, SinkUnavailable, words_of
from headrace.model.buckets import MOST_BUCKETS
from headrace.model.restarts import Restart, RestartFrom, restart_of
from headrace.model.streams import BadRecordPolicy, Guarantee, Order
from headrace.model.waves import Terms
from headrace.ports import Connections
from headrace.versions import Code
from headrace.versions.loading import origin_of
from headrace.versions.paths import folder_of_file

#: what Python and Headrace may take to start, besides the limit; machines are busy at times
_START_S = 60.0
#: of Spark's own start by spark-submit; with them a child would reach the driver's session
_NOT_FOR_CHILDREN = ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True, slots=True)
class Check:
    """What is to be found out."""

    code: Code
    #: where its main module is
    path: Path
    limit_s: float
    #: use cases that are to be packed and prepared; None: all
    only: frozenset[str] | None = None
    #: use cases that are not
    but: frozenset[str] = frozenset()
    #: where sinks are prepared; None: they are not, since no server is there yet
    connections: Connections | None = field(default=None, repr=False)
    #: seconds of computing in which no other thread of the process may go on
    most_held_s: float = inf
    #: those that the YAML file says something of: where one is not there, that alone is refused
    named: frozenset[str] = frozenset()

    def is_wanted(self, name: str) -> bool:
        """Whether the use case of this name is to be packed and prepared."""
        return name not in self.but and (self.only is None or name in self.only)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a deployment has to say of a use case, and its code alone knows."""

    topic: str
    bad_record: BadRecordPolicy
    terms: Terms
    #: into how many buckets each lane is divided; 1: into none
    divides_by: int
    #: what becomes of its streams that nobody read for a while
    restart: Restart | None
    #: the tenant whose topic it divides among others; None: it divides none
    operator: str | None = None
    #: the topic for all that it writes to and does not make
    has_to_be_there: str | None = None


def checked(check: Check) -> dict[str, Declared]:
    """The use cases of a version that does import, and can be packed and prepared.

    Raises:
        ConfigError: it cannot; the message has file, line, use case and what to do.
        SinkUnavailable: what a sink writes to does not answer.
    """
    status, said = _run(check)
    last = _last_answer(said)
    if "use_cases" in last:
        return _all_declared(check, last["use_cases"])
    if "temporary" in last:
        kind = ConnectionDown if last.get("connection") else SinkUnavailable
        raise kind(str(last["temporary"]))
    refused, doing = str(last.get("refused", "")), str(last.get("doing", ""))
    raise ConfigError(refused or _died(check, status, said, doing))


def _last_answer(said: Sequence[str]) -> dict[str, Any]:
    """What the child told last; a module may have written between its lines."""
    for line in reversed(said):
        with suppress(ValueError):
            told = json.loads(line) if line.startswith("{") else None
            if isinstance(told, dict):
                return told
    return {}


def _all_declared(check: Check, told: Any) -> dict[str, Declared]:
    """What was told of the use cases; a module can write where the answer is expected."""
    try:
        return {name: _declared(one) for name, one in told.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the check of {check.path} answered nonsense ({words_of(error)}); nothing in the "
            "module may write to files that it did not open"
        ) from error


def _declared(told: dict[str, Any]) -> Declared:
    terms = told["terms"]
    bad_record = BadRecordPolicy(told["bad_record"])
    terms |= {"guarantee": Guarantee(terms["guarantee"]), "order": Order(terms["order"])}
    buckets = told["buckets"]
    least = 2 if terms["order"] is Order.KEY else 1
    most = MOST_BUCKETS if terms["order"].divides else 1
    if type(buckets) is not int or not least <= buckets <= most:
        raise ValueError(f"{buckets!r} buckets")
    made = Terms(**{**terms, "bad_record": bad_record})
    return Declared(
        told["topic"],
        bad_record,
        made,
        buckets,
        _restart(told["restart"]),
        told["operator"],
        told["has_to_be_there"],
    )


def _restart(told: dict[str, Any] | None) -> Restart | None:
    if told is None:
        return None
    said = told["after_s"], told["max_age_s"]
    return restart_of(RestartFrom.LATEST, *said, ("restart_after_s", "max_age_s"))


def _run(check: Check) -> tuple[int | None, list[str]]:
    """How the child ended, None if it had to be killed, and what it said."""
    status: int | None = None
    # A file: what the child has started may hold a pipe open for ever.
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace.deploying.checking_process"],
            stdin=subprocess.PIPE,
            stdout=out,
            env={key: value for key, value in os.environ.items() if key not in _NOT_FOR_CHILDREN},
            start_new_session=True,
        )
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError), process.stdin:  # it may be dead by now
                process.stdin.write(pickle.dumps(check))
            with suppress(subprocess.TimeoutExpired):
                status = process.wait(2 * check.limit_s + 2 * _START_S)
        finally:
            with suppress(ProcessLookupError):  # with all that it has started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(0)
        return status, out.read().decode(errors="replace").splitlines()


def _died(check: Check, status: int | None, said: Sequence[str], doing: str) -> str:
    """Why there is no answer, as far as can be told."""
    late = status is None or any(line.startswith("Timeout (") for line in said)
    where = _where(check, said)
    what = doing or f"{check.path}: it is imported"
    if late:
        return (
            f"{what}{where}: not done within {check.limit_s:g} s; move what takes long into the "
            "handler, or say deploy_timeout in the YAML file"
        )
    ended = _ended(status)
    return f"{what}{where}: the process died ({ended}); try 'python {check.path}' to see why"


def _ended(status: int | None) -> str:
    """The exit code of a process, or the signal that ended it."""
    if status is None or status >= 0:
        return f"exit code {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # most real-time signals have no name
        return f"signal {-status}"


def _where(check: Check, said: Sequence[str]) -> str:
    """The line that Python was at, by the words of its fault handler."""
    files = {origin_of(module, folder_of_file(check.path)) for module in check.code.modules}
    frames = (_FRAME.search(line) for line in said if not line.startswith("{"))
    found = ((frame[1], frame[2]) for frame in frames if frame)
    at = next(((file, line) for file, line in found if file in files), None)
    return f", at {at[0]}, line {at[1]}" if at else ""
