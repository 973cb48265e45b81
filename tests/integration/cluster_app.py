"""A driver on a real cluster, run as a process of its own: one process holds one Spark session.

``python cluster_app.py SCENARIO FOLDER MASTER`` prints what it saw as one line of JSON. Handlers
are nested functions, so that they travel to the executors by value.
"""

import json
import signal
import sys
import time
import uuid
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
from fading_reader import FadingReader

from headrace.model.records import Deployment, LaneStart
from headrace.model.streams import LaneId, Slice, StreamId, Tenant
from headrace.model.waves import Bin, Wave
from headrace.ports import Connections
from headrace.sinks import ParquetFiles
from headrace.spark.engine import SparkEngine, TaskTools
from headrace.spark.session import build_session, elastic_options
from headrace.store import SqlPositionsFactory, open_store
from headrace.testing.dead_letters_fake import MemoryDeadLetters
from headrace.testing.numbers_reader import NumbersReader
from headrace.use_cases import use_case

TOPIC = "{tenant}.visits"
OPTIONS = {
    **elastic_options(1, 4),
    "spark.dynamicAllocation.executorIdleTimeout": "15s",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
}


@contextmanager
def engine_on(master, folder):
    url = f"sqlite:///{folder / 'store.db'}"
    open_store(url).close()
    session = build_session("cluster app", master, OPTIONS, {"quick": 1, "gold": 3})
    connections = Connections({}, url, warehouse=str(folder / "files"))
    tools = TaskTools(connections, NumbersReader(), SqlPositionsFactory(), MemoryDeadLetters())
    engine = SparkEngine(session, tools)
    try:
        yield engine
    finally:
        engine.close()
        session.stop()


def take(engine, handler, name="quick", guarantee=None):
    promise = {"guarantee": guarantee} if guarantee else {}
    made = use_case(topic=TOPIC, sink=ParquetFiles(name), name=name, **promise)(handler)
    engine.take(made, Deployment(name, "m.py", "0" * 64, TOPIC, handler_timeout_s=300.0))


def wave(number, name="quick"):
    """One slice, of a lane of its own."""
    lane = LaneId(name, f"tenant{number}", f"tenant{number}.visits[0]")
    piece = Slice(lane, f"tenant{number}.visits", 0, 10, 1)
    return Wave(f"w{number}", name, (Bin((piece,), 1.0),), 60.0)


def hold(store, name, numbers):
    """Have the lanes of these waves in the store, at their beginnings."""
    store.registry.deploy(Deployment(name, "m.py", "0" * 64, TOPIC))
    streams = [StreamId(name, f"tenant{number}") for number in numbers]
    for stream in streams:
        store.registry.add_tenant(Tenant(stream.tenant))
    store.membership.hold(streams)
    store.progress.start_lanes(
        [LaneStart(stream, "id", {f"{stream.tenant}.visits[0]": 0}) for stream in streams]
    )


def until(condition, deadline_s=120.0):
    """Whether it comes true in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


class Load:
    """Keeps so many waves in flight until a condition is true; remembers what came back."""

    def __init__(self, engine):
        self.engine = engine
        self.results = []
        self.started = 0
        self.executors = []

    def run(self, at_once, condition, deadline_s=120.0):
        end = time.monotonic() + deadline_s
        while not condition() and time.monotonic() < end:
            while self.started - len(self.results) < at_once:
                self.engine.start(wave(self.started))
                self.started += 1
            self.results += self.engine.finished(0.5)
            self.executors.append(self.engine.executors)

    def drain(self):
        until(lambda: self.started == len(self.results) + self._take(), 60.0)

    def _take(self):
        self.results += self.engine.finished(0.5)
        return 0


def elastic(engine, folder):
    marks = folder / "marks"
    marks.mkdir()

    def handler(table, context, marks=str(marks)):
        import time  # noqa: PLC0415 - it travels alone
        import uuid  # noqa: PLC0415

        with open(f"{marks}/{context.tenant}.{uuid.uuid4()}", "x"):
            time.sleep(0.5)
        return table.select(["offset"])

    take(engine, handler)
    load = Load(engine)
    first = until(lambda: engine.executors == 1)
    # No task waits: who knows the load asks.
    load.run(1, lambda: engine.resize(3) or engine.executors == 3)
    asked_for = engine.executors
    load.run(1, lambda: engine.slots == 3)
    warm = engine.slots
    load.run(4, lambda: engine.resize(4) or (engine.slots == 4 and len(load.results) >= 12))
    most, slots_at_most = engine.executors, engine.slots
    # A steady trickle keeps all of them from being idle long enough to go by themselves.
    load.run(2, lambda: engine.resize(2) or engine.executors == 2)
    released_to = engine.executors
    until_results = len(load.results) + 8
    load.run(2, lambda: len(load.results) >= until_results)
    load.drain()
    shrunk = until(lambda: engine.executors == 1)
    ran = Counter(path.name.partition(".")[0] for path in marks.iterdir())
    settings = dict(engine.session.sparkContext.getConf().getAll())
    return {
        "first": first,
        "asked_for": [asked_for, warm],
        "most": most,
        "slots_at_most": slots_at_most,
        "released_to": released_to,
        "stayed": load.executors[-8:],
        "shrunk": shrunk,
        "ever_more": max(load.executors) > 4,
        "started": load.started,
        "errors": [str(result.error) for result in load.results if result.error],
        "reached": [receipt.reached for result in load.results for receipt in result.receipts],
        "ran": ran,
        "settings": settings,
    }


def killed(engine, folder):
    marks, gate = folder / "marks", folder / "gate"
    marks.mkdir()

    def handler(table, context, marks=str(marks), gate=str(gate)):
        import os  # noqa: PLC0415
        import time  # noqa: PLC0415
        import uuid  # noqa: PLC0415

        import psutil  # noqa: PLC0415

        java = psutil.Process(os.getppid()).ppid()
        path = f"{marks}/{context.tenant}.{java}.{os.getpid()}.{uuid.uuid4()}"
        os.rename(_written(path), path)
        while not os.path.exists(gate):
            time.sleep(0.05)
        return table.select(["offset"])

    def _written(path):
        with open(f"{path}~", "x"):
            return f"{path}~"

    def marked():
        found = [path.name.split(".") for path in marks.iterdir() if not path.name.endswith("~")]
        return {tenant: (int(java), int(worker)) for tenant, java, worker, _ in found}

    take(engine, handler)
    for number in range(2):
        engine.start(wave(number))
    both = until(lambda: len(marked()) == 2)
    java, worker = marked()["tenant0"]
    apart = java != marked()["tenant1"][0]
    command = psutil.Process(java).cmdline()
    psutil.Process(java).send_signal(signal.SIGKILL)
    orphan_gone = until(lambda: not psutil.pid_exists(worker), 30.0)
    gate.touch()
    found = []
    until(lambda: found.extend(engine.finished(0.5)) or len(found) == 2)
    results = {result.wave.id: result for result in found}
    engine.start(wave(2))
    (after,) = engine.finished(60.0)
    return {
        "command": " ".join(command),
        "both": both,
        "apart": apart,
        "orphan_gone": orphan_gone,
        "returned": sorted(result.wave.id for result in found),
        "victim_error": str(results["w0"].error or ""),
        "victim": [
            (receipt.reached, str(receipt.error or "")) for receipt in results["w0"].receipts
        ],
        "other_error": str(results["w1"].error or ""),
        "ran": Counter(path.name.partition(".")[0] for path in marks.iterdir()),
        "after_error": str(after.error or ""),
    }


def executors_of(engine):
    mine = engine.session.sparkContext.applicationId
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if mine in (process.info["cmdline"] or [])
        and "CoarseGrained" in str(process.info["cmdline"])
    ]


def read_again(engine, folder):
    """Executors die with what they kept of a wave; then brokers are away, and the next time not."""
    away, seen = folder / "away", []
    engine.session.sparkContext.addPyFile(str(Path(__file__).with_name("fading_reader.py")))
    engine.tools = replace(engine.tools, reader=FadingReader(away=str(away)))

    def report(frame, wave):
        if wave.id == "w0":
            away.touch()
        for victim in executors_of(engine):
            victim.send_signal(signal.SIGKILL)
            victim.wait(20.0)
        seen.append(sorted(row[0] for row in frame.select("offset").collect()))

    made = use_case(topic=TOPIC, form="wave", name="quick", guarantee="exactly-once")(report)
    engine.take(made, Deployment("quick", "m.py", "0" * 64, TOPIC, handler_timeout_s=300.0))
    with closing(open_store(engine.tools.connections.database_url)) as store:
        hold(store, "quick", range(2))
    found = []
    for number in range(2):
        engine.start(wave(number))
        (result,) = engine.finished(120.0)
        found.append(result)
        away.unlink(missing_ok=True)
    return {
        "errors": [result.error and result.error.code for result in found],
        "reached": [[receipt.reached for receipt in result.receipts] for result in found],
        "seen": seen,
    }


def all_killed(engine, folder):
    """Every executor at once, in the middle of their work."""

    def handler(table, context):
        import time  # noqa: PLC0415

        time.sleep(0.5)
        return table.select(["offset"])

    take(engine, handler)
    load = Load(engine)
    load.run(4, lambda: engine.executors == 4 and len(load.results) >= 8)
    victims = executors_of(engine)
    for victim in victims:
        victim.send_signal(signal.SIGKILL)
    before = len(load.results)
    load.run(4, lambda: len(load.results) >= before + 12)
    load.drain()
    return {
        "victims": len(victims),
        "errors": [str(result.error) for result in load.results if result.error],
        "reached": [receipt.reached for result in load.results for receipt in result.receipts],
        "returned": len({result.wave.id for result in load.results}),
        "started": load.started,
    }


def fair(engine, folder):
    marks, waves = folder / "marks", 24

    def handler(table, context, marks=str(marks)):
        import time  # noqa: PLC0415 - it travels alone

        with open(f"{marks}/{time.time_ns()}.{context.use_case}", "x"):
            time.sleep(0.2)
        return table.select(["offset"])

    marks.mkdir()
    take(engine, handler)
    take(engine, handler, "gold")
    load = Load(engine)
    load.run(8, lambda: engine.executors == 4)
    load.drain()
    warm = len(list(marks.iterdir()))
    for name in ("quick", "gold"):
        for _ in range(waves):
            engine.start(wave(load.started, name))
            load.started += 1
    load.drain()
    begun = [path.name.partition(".")[2] for path in sorted(marks.iterdir())][warm:]
    return {
        "errors": [str(result.error) for result in load.results if result.error],
        "all": Counter(begun),
        # While both wait: from the first of those asked last.
        "both": Counter(begun[begun.index("gold") :][:16]),
    }


def apart(engine, folder):
    """One executor sees the warehouse; one that comes later does not; then the first one goes."""
    files, signs, lanes = folder / "files", folder.parent, range(20)
    last = len(lanes)

    def handler(table, context):
        return table.select(["offset"])

    def what_became_of(waves):
        """Where each stands, which files it has, and what was said."""
        for planned in waves:
            engine.start(planned)
        found = []
        until(lambda: found.extend(engine.finished(0.5)) or len(found) == len(waves))
        results = {result.wave.id: result for result in found}
        positions = {
            position.lane: position.next_offset for position in store.progress.load_positions()
        }
        for planned in waves:
            result = results[planned.id]
            (receipt,) = result.receipts
            lane = receipt.slice.lane
            written = list((files / lane.use_case / f"tenant={lane.tenant}").glob("*"))
            error = receipt.error or result.error
            yield {
                "use_case": lane.use_case,
                "reached": receipt.reached,
                "position": positions.get(lane),
                "files": len(written),
                "error": error and (error.code, error.temporary, error.message),
            }

    def both(lanes):
        made = (wave(number, name) for number in lanes for name in ("quick", "gold"))
        return [replace(planned, id=f"{planned.use_case} {planned.id}") for planned in made]

    with closing(open_store(engine.tools.connections.database_url)) as store:
        hold(store, "gold", (*lanes, last))
        files.mkdir()
        take(engine, handler)
        take(engine, handler, "gold", "at-most-once")
        alone = until(lambda: engine.executors == engine.slots == 1)
        (signs / "join").write_text(str(files))
        joined = until(lambda: engine.resize(2) or engine.executors == 2)
        seen, left = [], both(lanes)
        end = time.monotonic() + 120.0
        while left and time.monotonic() < end:
            at_once, left = left[:2], left[2:]
            found = dict(zip(at_once, what_became_of(at_once), strict=True))
            left += [tenant for tenant, what in found.items() if what["error"]]
            seen += found.values()
        # Both are idle now, so both are asked.
        engine.warm_up()
        (signs / "leave").touch()
        gone = until(
            lambda: engine.resize(2) or ((signs / "left").exists() and engine.executors == 1)
        )
        refused = list(what_became_of(both([last])))
    return {"steps": [alone, joined, gone], "seen": seen, "refused": refused, "files": str(files)}


_ALL = (elastic, killed, read_again, all_killed, fair, apart)
SCENARIOS = {scenario.__name__: scenario for scenario in _ALL}


def main(scenario, folder, master):
    work = Path(folder) / f"{scenario}-{uuid.uuid4().hex[:8]}"
    work.mkdir()
    with engine_on(master, work) as engine:
        seen = SCENARIOS[scenario](engine, work)
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
