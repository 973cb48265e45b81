"""One go at taking a deployment: everything in it that is somebody else's code or server.

Here nothing is believed. It runs in a thread of its own, whatever is raised stays in it (others get
an error of ours with its text), and it says how far it has come, so that one that hangs can be told
by name. What an import, the packing or a sink sets for its process is put back after it
(`spark/load_settings.py`); where that cannot be, it is not taken. What to do about all that is
decided in `taking.py`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Literal, TypeVar

from headrace.connectors.by_topic import require_log
from headrace.cycle.driver import DriverParts
from headrace.deploying.needs import require_known_ends, require_registry
from headrace.errors import ConfigError, HeadraceError, Temporary, as_ours, text_of, words_of
from headrace.model.records import Answer, Deployment
from headrace.ports import Connections, PackedCode, Site
from headrace.process.memory import clear_frames
from headrace.spark.load_settings import BeforeLoad, before_load
from headrace.use_cases import UseCase

#: imports what was deployed; may take long, and raise anything
Load = Callable[[Deployment], UseCase]

_T = TypeVar("_T")
_Given = TypeVar("_Given")

_MOST_CHARACTERS = 2_000
_DOES = {
    "import": "importing {module}",
    "pack": "making {use_case} ready for executors",
    "prepare": "preparing the sink of {use_case}",
}


@dataclass(frozen=True, slots=True)
class ReadyVersion:
    """A version that a driver has only to swap in."""

    deployment: Deployment
    use_case: UseCase
    code: PackedCode


@dataclass(frozen=True, slots=True)
class NotTakenUp:
    """A deployment that was not taken."""

    deployment: Deployment
    error: HeadraceError
    #: since when it is refused for this reason
    since_s: float
    #: what was imported of it, for the next try
    module: str = ""
    #: how often it was tried
    tries: int = 1
    #: monotonic; infinite for the next deployment
    again_at_s: float = inf

    @property
    def again(self) -> bool:
        """Whether it is tried again by itself."""
        return isfinite(self.again_at_s)

    def is_of(self, deployment: Deployment) -> bool:
        """Whether it is this one, and was not deployed again since."""
        return self.deployment == deployment and self.deployment.revision == deployment.revision

    def after(self, before: NotTakenUp) -> NotTakenUp:
        """The same once more, after an earlier refusal of the same deployment."""
        same = str(before.error) == str(self.error)
        since_s = before.since_s if same else self.since_s
        return replace(self, tries=before.tries + 1, since_s=since_s)

    def answer(self, driver: str, runs: str | None) -> Answer:
        """What the driver says to it, while it runs a version of this digest, or none."""
        name, revision = self.deployment.use_case, self.deployment.revision
        error = str(self.error)[:_MOST_CHARACTERS]
        return Answer(driver, name, revision, runs, self.since_s, error, self.again)


@dataclass(slots=True)
class Attempt:
    """One go at a deployment, in a thread of its own."""

    deployment: Deployment
    #: how the process was; before another, if that hangs: what it sets meanwhile is not to stay
    before: BeforeLoad | None = None
    step: Literal["import", "pack", "prepare"] = "import"
    #: what was imported
    use_case: UseCase | None = None
    made: ReadyVersion | None = None
    error: HeadraceError | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def begin(self, parts: DriverParts, connections: Connections, load: Load) -> None:
        """Start the thread; ``over`` is set when it ends, however it does."""
        given = (self._run, parts, connections, load)
        threading.Thread(
            target=copy_context().run, args=given, name="headrace-take", daemon=True
        ).start()

    def _run(self, parts: DriverParts, connections: Connections, load: Load) -> None:
        try:
            self.use_case = use_case = self._apart(_closing(load, self.deployment))
            self.step = "pack"
            use_case = use_case.within(connections.warehouse)
            _find_log(connections, use_case)
            if use_case.needs_registry:
                _find_registry(connections, use_case.name)
            require_known_ends(use_case, self.deployment, parts.log)
            code = self._apart(lambda: parts.engine.packed(use_case))
            self.step = "prepare"
            if (sink := use_case.sink) is not None:
                site = Site(connections, parts.store.positions)
                self._apart(_closing(sink.prepare, site))
            self.made = ReadyVersion(self.deployment, use_case, code)
        except BaseException as error:  # also an exit: it would end nothing but this thread
            self.error = self._told(error)
            # What it held may hang where it is closed, and is to be this attempt's trouble.
            clear_frames(error)
            gc.collect()
        finally:
            self.over.set()

    def _apart(self, call: Callable[[], _T]) -> _T:
        if self.before is None:
            self.before = before_load()
        try:
            found = call()
        finally:
            lost = self.put_back()
        if lost:
            raise ConfigError(
                f"{self._does} sets {', '.join(lost)}, and that cannot be put back: leave it out; "
                "all use cases of this driver have it until it is started again"
            )
        return found

    def put_back(self) -> list[str]:
        """What was set for all of the process by this is as it was; or what is not."""
        return [] if self.before is None else self.before.put_back()

    def would_hang(self, deployment: Deployment) -> bool:
        """Whether this one, which hangs, shows that another would."""
        mine = self.deployment
        if self.step == "import":
            return (mine.module, mine.digest) == (deployment.module, deployment.digest)
        return mine == deployment

    @property
    def module(self) -> str:
        """The module that was imported, if any."""
        return "" if self.use_case is None else self.use_case.module

    @property
    def is_importing(self) -> bool:
        """Whether it may be in a module whose name is not known yet."""
        return not self.over.is_set() and self.use_case is None

    @property
    def refusal(self) -> HeadraceError:
        """Why nothing came of it."""
        late = f"{self._does} did not come back in time; nothing else waits for it"
        return self.error or Temporary(late)

    @property
    def may_pass(self) -> bool:
        """Whether it may go otherwise without another deployment."""
        return self.step == "prepare" or isinstance(self.refusal, Temporary)

    @property
    def _does(self) -> str:
        deployment = self.deployment
        return _DOES[self.step].format(module=deployment.module, use_case=deployment.use_case)

    def _told(self, error: BaseException) -> HeadraceError:
        if isinstance(error, HeadraceError):
            # Its text is made here: whoever asks for it later is to run no code of somebody else.
            return as_ours(error, text_of(error))
        return ConfigError(f"{self._does} raised {words_of(error)}")


def _closing(call: Callable[[_Given], _T], given: _Given) -> Callable[[], _T]:
    """The call, and what it dropped is closed after it: that may hang, as a turn that collects."""

    def closed() -> _T:
        made = call(given)
        gc.collect()
        return made

    return closed


def _find_log(connections: Connections, use_case: UseCase) -> None:
    try:
        require_log(use_case.topic, connections)
    except ConfigError as error:
        raise ConfigError(
            f"{use_case.name}: topic {use_case.topic}: {error}; then start this driver again, "
            "which reads that when it starts"
        ) from error


def _find_registry(connections: Connections, name: str) -> None:
    try:
        require_registry(connections)
    except ConfigError as error:
        raise ConfigError(
            f"{name}: {error}; then start this driver again, which reads that when it starts"
        ) from error
