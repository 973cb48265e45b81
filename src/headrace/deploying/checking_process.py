"""The process in which a version is checked: imported, packed for executors, its sinks prepared.

What is packed is unpacked in one more process (`unpacking_process.py`), which knows as little as a
worker does: in this one everything local was imported already.

`checking.py` starts it, and says why. It tells what it is about to do before it does it, so that
what was going on is known even if it dies; Python's fault handler tells the line.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, TextIO

from headrace.connectors.by_topic import require_log
from headrace.deploying import unpacking_process
from headrace.deploying.answers import private_output, tell
from headrace.deploying.beats import Beats
from headrace.deploying.checking import Check
from headrace.deploying.needs import require_registry, require_same_state
from headrace.deploying.unpacking_process import Packed, Unpacking
from headrace.errors import (
    CodeNotLoaded,
    ConfigError,
    ConnectionDown,
    HeadraceError,
    SinkUnavailable,
    Temporary,
    as_ours,
    text_of,
    words_of,
)
from headrace.operating.topics import has_to_be_there
from headrace.ports import Connections, Site
from headrace.process import watchdog
from headrace.spark.load_settings import BeforeLoad, before_load
from headrace.spark.shipping import code_of
from headrace.splitting import operator_of
from headrace.store import SqlPositionsFactory
from headrace.use_cases import UseCase
from headrace.versions import load_code
from headrace.versions.elsewhere import refuse_elsewhere, refuse_late
from headrace.versions.loading import line_in, origin_of
from headrace.versions.paths import folder_of_file


def main() -> int:
    """Check what standard input names, and tell on what was standard output."""
    check: Check = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that started this
    out = private_output()
    faulthandler.enable(out)
    watchdog.end_after(check.limit_s, out.fileno())
    sys.addaudithook(_refuse_spark)
    try:
        found = _checked(check, out)
    except Temporary as error:
        tell(out, temporary=text_of(error), connection=isinstance(error, ConnectionDown))
    except HeadraceError as error:
        tell(out, refused=text_of(error))
    except BaseException as error:  # such as the repr of a sink
        tell(out, refused=f"{check.path}: {words_of(error)}")
    else:
        tell(out, use_cases=found)
    out.flush()
    # What a module has left running (threads that never end) is of no interest.
    os._exit(0)


def _checked(check: Check, out: TextIO) -> dict[str, dict[str, object]]:
    until_s = time.monotonic() + check.limit_s
    beats = Beats(_files(check))
    beats.begin()
    tell(out, doing=f"{check.path}: it is imported")
    use_cases = _load(check)
    _refuse_held(check, beats, "it is imported")
    there = check.named <= use_cases.keys()
    wanted = [one for name, one in use_cases.items() if there and check.is_wanted(name)]
    packed = [Packed(_at(check, use_case), _pack(check, use_case, out)) for use_case in wanted]
    _refuse_held(check, beats, f"it is packed, for {_names(wanted)}")
    rest_s = until_s - time.monotonic()
    watchdog.stop()
    _unpack_elsewhere(Unpacking(check.limit_s, tuple(one for one in packed if one.code)), out)
    watchdog.end_after(rest_s, out.fileno())
    for use_case in wanted:
        at = _at(check, use_case)
        if check.connections is not None:
            tell(out, doing=f"{at}: it is seen whether its topic's log is named")
            _find_log(check.connections, use_case, at)
        if check.connections is not None and use_case.needs_registry:
            tell(out, doing=f"{at}: it is seen whether it has a schema registry")
            _find_registry(check.connections, at)
        if check.connections is not None and use_case.state:
            tell(out, doing=f"{at}: it is seen whether it can read its state")
            _find_state(check.connections, use_case, at)
        if check.connections is not None and use_case.sink is not None:
            tell(out, doing=f"{at}: its sink {type(use_case.sink).__name__} is prepared")
            positions = SqlPositionsFactory().open(check.connections)
            before = before_load()
            _prepare(use_case, Site(check.connections, positions), check, at)
            _put_back(check, before, at, "its sink is prepared")
            _refuse_held(check, beats, f"its sink is prepared, for {_names([use_case])}")
    return {
        name: {
            "topic": use_case.topic,
            "bad_record": use_case.bad_record,
            "terms": asdict(use_case.terms),
            "buckets": use_case.divides_by,
            "restart": None if use_case.restart is None else asdict(use_case.restart),
            "operator": operator_of(use_case),
            "has_to_be_there": has_to_be_there(use_case),
        }
        for name, use_case in use_cases.items()
    }


def _load(check: Check) -> dict[str, UseCase]:
    """Import it, and leave the process as a driver is left."""
    before, path_before, ran = before_load(), list(sys.path), set[str]()
    sys.addaudithook(partial(_note_run, ran))
    use_cases = load_code(check.code, check.path).use_cases
    gc.collect()  # what it dropped is closed as a driver closes it, and within the limit
    refuse_elsewhere(check.code, folder_of_file(check.path), path_before, ran)
    refuse_late(check.code, path_before)
    _put_back(check, before, str(check.path), "it is imported")
    return use_cases


def _put_back(check: Check, before: BeforeLoad, at: str, doing: str) -> None:
    """Tell what was set for the process, and refuse what cannot be put back."""
    changed = before.changed()
    lost = before.put_back()
    if lost:
        raise ConfigError(
            f"{at} sets {', '.join(lost)} when {doing}, and that cannot be put back; all use cases "
            "of the process would have it: leave it out, or do it in a process of its own"
        )
    if changed and check.connections is not None:
        then = "that is put back after that; set it in the function that needs it"
        with suppress(OSError):  # nor is it sure that sys.stderr is still ours
            os.write(2, f"{at} sets {', '.join(changed)} when {doing}: {then}\n".encode())


def _refuse_held(check: Check, beats: Beats, doing: str) -> None:
    if beats.held_s <= check.most_held_s:
        return
    where = f"{beats.line[0]}, line {beats.line[1]}" if beats.line else str(check.path)
    raise ConfigError(
        f"{where}: Python is held for {beats.held_s:.1f} s at a stretch when {doing}, so that no "
        f"driver takes a turn for any tenant meanwhile; {check.most_held_s:.3g} s, a third of "
        "driver.lease, are the most: load what is large at the first call, in a function that "
        "keeps it (functools.cache), or in smaller parts"
    )


def _names(use_cases: Sequence[UseCase]) -> str:
    return ", ".join(f"use case {use_case.name}" for use_case in use_cases)


def _files(check: Check) -> list[str]:
    return [origin_of(module, folder_of_file(check.path)) for module in check.code.modules]


def _at(check: Check, use_case: UseCase) -> str:
    code = getattr(use_case.handler, "__code__", None)
    line = f", line {code.co_firstlineno}" if code else ""
    return f"{check.path}{line}: use case {use_case.name}"


def _pack(check: Check, use_case: UseCase, out: TextIO) -> bytes:
    at = _at(check, use_case)
    tell(out, doing=f"{at} is packed for executors")
    before = before_load()
    try:
        code = code_of(use_case)
    except ConfigError as error:
        raise ConfigError(f"{at}: {error}") from error
    _put_back(check, before, at, "it is packed")
    return code


def _unpack_elsewhere(unpacking: Unpacking, out: TextIO) -> None:
    """Have it unpacked by a process that has imported nothing local, and end as that one did."""
    if not unpacking.packed:
        return
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-P", "-m", unpacking_process.__name__],
        input=pickle.dumps(unpacking),
        stdout=out,
        check=False,
    )
    if done.returncode == 0:
        return
    # It has told why, or what it did when it died.
    if done.returncode > 0:
        os._exit(done.returncode)
    faulthandler.disable()
    os.kill(os.getpid(), -done.returncode)


def _find_log(connections: Connections, use_case: UseCase, at: str) -> None:
    try:
        require_log(use_case.topic, connections)
    except (CodeNotLoaded, ConfigError) as error:
        raise ConfigError(f"{at}: topic {use_case.topic}: {error}") from error


def _find_registry(connections: Connections, at: str) -> None:
    try:
        require_registry(connections)
    except ConfigError as error:
        raise ConfigError(f"{at}: {error}") from error


def _find_state(connections: Connections, use_case: UseCase, at: str) -> None:
    try:
        require_same_state(use_case, SqlPositionsFactory().open(connections))
    except ConfigError as error:
        raise ConfigError(f"{at}: {error}") from error


def _prepare(use_case: UseCase, site: Site, check: Check, at: str) -> None:
    assert use_case.sink is not None
    try:
        use_case.sink.prepare(site)
    except Temporary as error:
        at_one = getattr(use_case.sink, "at", None) is not None
        text = f"{at}: {text_of(error)}"
        is_down = at_one and isinstance(error, SinkUnavailable)
        raise (ConnectionDown(text) if is_down else as_ours(error, text)) from error
    except HeadraceError as error:
        raise ConfigError(f"{at}: {text_of(error)}") from error
    except BaseException as error:
        line = line_in(error, _files(check))
        where = f" ({line[0]}, line {line[1]})" if line else ""
        raise ConfigError(
            f"{at}: its sink {type(use_case.sink).__name__} cannot be prepared{where}: "
            f"{words_of(error)}; mend its prepare()"
        ) from error


def _refuse_spark(event: str, given: tuple[Any, ...]) -> None:
    """A module that makes a session would take the driver's, or make one before the driver does."""
    if event == "subprocess.Popen" and "spark-submit" in str(given[1]):
        raise ConfigError(
            "a Spark session is made here; take that of the frame (frame.sparkSession) in a "
            "handler of form wave, and make none in the module"
        )


def _note_run(files: set[str], event: str, given: tuple[Any, ...]) -> None:
    """Note the file of code that is run; each import does that, and each call that runs a file."""
    if event == "exec":
        files.add(str(getattr(given[0], "co_filename", "")))


if __name__ == "__main__":
    sys.exit(main())
