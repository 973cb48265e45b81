"""Taking what was deployed, while turns go on.

To take a version of a use case is to import a file, to pickle what is in it, and to let its sink
look at where it writes. All of that is code, or a server, of somebody else: it may raise anything,
take long, or never come back, and a turn that waited for it would lose the leases of all tenants.
So a thread does it, one deployment after the other, each within a time limit, those first that were
never tried; and a turn only swaps in what is ready (`swap`). Until then the version before goes on.

What became of it the driver says in the store, where whoever deployed it waits for the answers. A
table or a server that refused may be mended any moment, so that is tried again, with growing waits;
what the code itself refuses waits for the next deployment, also of the same. Python cannot end a
thread: an attempt that is not back in time is left to itself, and nothing that would hang as well
is begun meanwhile. Should it come back, what it made is taken, if it is still wanted.

What was replaced is forgotten here as well, with all that it imported, so that a driver that is
deployed to every day stays as small as it was; a thread of its own frees it, since what it closes
then may hang too. It takes the modules apart itself: left to Python's collector, what hangs in it
would keep it from ever collecting again, and what it was told to leave alone (`process/memory.py`)
it would keep.

What takes the whole process with it, such as ``os._exit`` or a crash in C, cannot be held off here.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from types import ModuleType

import structlog

from headrace.cycle.driver import Driver
from headrace.deploying.attempt import Attempt, Load, NotTakenUp, ReadyVersion
from headrace.errors import HeadraceError
from headrace.model.records import Answer, Deployment
from headrace.policies.retry import Backoff
from headrace.ports import Connections
from headrace.versions.loading import forget_all_but

log = structlog.get_logger(__name__)

#: how often it is looked for deployments that changed
LOOK_EVERY_S = 0.5
#: what an import, the packing and the sink's look may take together
LIMIT_S = 60.0
#: how long what is under way is waited for at the end
_LAST_WORD_S = 3.0
_BACKOFF = Backoff(first_s=1.0, most_s=30.0)


@dataclass(slots=True)
class Taking:
    """What a driver takes, beside its turns."""

    driver: Driver
    connections: Connections
    load: Load
    limit_s: float = LIMIT_S
    chance: Callable[[], float] = random.random
    #: these are touched by turns as well
    _ready: dict[str, ReadyVersion] = field(default_factory=dict)
    _swapping: list[ReadyVersion] = field(default_factory=list)
    _runs: dict[str, tuple[Deployment, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _refused: dict[str, NotTakenUp] = field(default_factory=dict)
    #: use cases that run here, and are not deployed any more
    _over: set[str] = field(default_factory=set)
    #: attempts that are not back
    _hanging: list[Attempt] = field(default_factory=list)
    _told: tuple[int, list[Answer]] | None = None
    _in_trouble: bool = False
    _stopped: threading.Event = field(default_factory=threading.Event)
    _news: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _crash: BaseException | None = None

    def start(self) -> None:
        """Look now and then from now on, in a thread of its own."""
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name="headrace-taking")
        self._thread.daemon = True
        self._thread.start()

    def stop(self) -> None:
        """Look no more, and let be what hangs."""
        self._stopped.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(_LAST_WORD_S)

    def swap(self) -> None:
        """Let the driver run what is ready, from its next turn on; never waits, runs no code of it.

        Raises:
            Exception: what ended the thread that looks, which is a fault of ours.
        """
        if self._crash is not None:
            raise self._crash
        with self._lock:
            found = self._swapping = list(self._ready.values())
            over, self._over = self._over, set()
        if over:
            self.driver.end(over)
        for ready in found:
            name = ready.deployment.use_case
            self.driver.parts.engine.take(ready.use_case, ready.deployment, ready.code)
            self.driver.take(ready.use_case, ready.deployment)
            with self._lock:
                self._runs[name] = (ready.deployment, self.driver.parts.clock.now_s())
                if self._ready.get(name) is ready:
                    del self._ready[name]
            digest = ready.deployment.digest[:12]
            log.info("use case taken over", use_case=name, digest=digest)
            self._news.set()
        self._swapping = []

    def poll(self, only: Collection[str] | None = None) -> None:
        """Try what was deployed and is not taken yet, and say what became of it; may take long.

        Args:
            only: names of the use cases to look at; None for all.

        Raises:
            StoreUnavailable: nothing was learned, or nobody was told.
        """
        tried: set[tuple[str, int]] = set()
        while True:
            wanted = self._wanted(only)
            self._welcome_late(wanted)
            for hanging in self._hanging:
                hanging.put_back()
            due = [
                deployment
                for deployment in wanted.values()
                if self._is_due(deployment) and _asked(deployment) not in tried
            ]
            if not due or self._stopped.is_set():
                break
            # What is new waits for one attempt at most, however many are tried again and again.
            first = min(due, key=self._was_refused)
            tried.add(_asked(first))
            self._try(first)
            self._tell(wanted.values())
        self._refused = {name: refused for name, refused in self._refused.items() if name in wanted}
        self._tell(wanted.values())
        if only is None:
            self._find_over(wanted)
        self._forget()

    def refuse_idleness(self, *, may_wait: bool) -> None:
        """Before the first turn: refuse to go on with nothing to run.

        Args:
            may_wait: what is refused for a reason that may pass is waited for.

        Raises:
            HeadraceError: why the first of the use cases was refused.
        """
        if self._runs or not self._refused:
            return
        if not (may_wait and any(refused.again for refused in self._refused.values())):
            raise next(iter(self._refused.values())).error
        log.warning("no use case can run; what may pass is tried again")

    def _wanted(self, only: Collection[str] | None) -> dict[str, Deployment]:
        return {
            deployment.use_case: deployment
            for deployment in self._deployments()
            if only is None or deployment.use_case in only
        }

    def _deployments(self) -> list[Deployment]:
        # A rerun that is over, or not begun yet, is nobody's to run.
        return [
            deployment
            for deployment in self.driver.parts.store.registry.deployments()
            if deployment.until != {}
        ]

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._look()
                self._news.wait(LOOK_EVERY_S)
                self._news.clear()
        except BaseException as crash:
            self._crash = crash
            raise

    def _look(self) -> None:
        try:
            self.poll()
            self._in_trouble = False
        except HeadraceError as error:
            if not self._in_trouble:
                log.warning("deployments could not be read or answered", error=str(error))
            self._in_trouble = True

    def _is_due(self, deployment: Deployment) -> bool:
        name = deployment.use_case
        with self._lock:
            ready, (runs, since_s) = self._ready.get(name), self._runs.get(name, (None, 0.0))
            if runs == deployment:
                self._runs[name] = (deployment, since_s)  # it may have been deployed again
                self._ready.pop(name, None)
        if deployment in (runs, ready and ready.deployment):
            self._refused.pop(name, None)
            return False
        if not self._was_refused(deployment):
            return True
        return self.driver.parts.clock.monotonic_s() >= self._refused[name].again_at_s

    def _was_refused(self, deployment: Deployment) -> bool:
        """Whether it was tried in vain since it was deployed."""
        refused = self._refused.get(deployment.use_case)
        return refused is not None and refused.is_of(deployment)

    def _try(self, deployment: Deployment) -> None:
        for hanging in self._hanging:
            if hanging.would_hang(deployment):
                self._refuse(deployment, hanging)
                return
        before = self._hanging[0].before if self._hanging else None
        attempt = Attempt(deployment, before)
        attempt.begin(self.driver.parts, self.connections, self.load)
        if not self._is_over(attempt):
            self._hanging.append(attempt)
            attempt.put_back()
        self._settle(attempt)

    def _is_over(self, attempt: Attempt) -> bool:
        """Wait for it, but not for one that is too late, or that nobody wants any more."""
        end_s = time.monotonic() + self.limit_s
        while (left_s := end_s - time.monotonic()) > 0:
            if attempt.over.wait(min(left_s, LOOK_EVERY_S)):
                return True
            if self._stopped.is_set() or not self._is_wanted(attempt.deployment):
                return False
        return False

    def _is_wanted(self, deployment: Deployment) -> bool:
        try:
            return deployment in self._deployments()
        except HeadraceError:  # nobody knows
            return True

    def _settle(self, attempt: Attempt) -> None:
        name = attempt.deployment.use_case
        if attempt.made is None:
            self._refuse(attempt.deployment, attempt)
            return
        self._refused.pop(name, None)
        with self._lock:
            self._ready[name] = attempt.made

    def _refuse(self, deployment: Deployment, attempt: Attempt) -> None:
        name, clock = deployment.use_case, self.driver.parts.clock
        before = self._refused.get(name)
        refused = NotTakenUp(deployment, attempt.refusal, clock.now_s(), attempt.module)
        if before is not None and before.is_of(deployment):
            refused = refused.after(before)
        wait_s = _BACKOFF.wait_s(refused.tries - 1, self.chance()) if attempt.may_pass else inf
        self._refused[name] = replace(refused, again_at_s=clock.monotonic_s() + wait_s)
        if before is None or str(before.error) != str(refused.error):  # each reason is said once
            again_in_s = round(wait_s, 1) if attempt.may_pass else None
            error = str(refused.error)
            log.error("deployment not taken", use_case=name, error=error, again_in_s=again_in_s)

    def _welcome_late(self, wanted: dict[str, Deployment]) -> None:
        """Take what came back after its time, if it is still wanted."""
        late = [attempt for attempt in self._hanging if attempt.over.is_set()]
        self._hanging = [attempt for attempt in self._hanging if not attempt.over.is_set()]
        for attempt in late:
            deployment = wanted.get(attempt.deployment.use_case)
            if deployment == attempt.deployment:
                self._settle(attempt)

    def _find_over(self, wanted: Collection[str]) -> None:
        """Reruns that are done."""
        with self._lock:
            self._over = {name for name in self._runs if name not in wanted}
            for name in [name for name in self._over if name not in self.driver.versions.newest]:
                del self._runs[name]  # the driver has let it go

    def _forget(self) -> None:
        """Let versions go that nothing can ask for any more, with all that they have imported.

        A driver lives for months, and a version may have loaded a model. What is being imported
        has no name yet: as long as that hangs, nothing is forgotten.
        """
        if any(attempt.is_importing for attempt in self._hanging):
            return
        with self._lock:
            versions = (*self._ready.values(), *self._swapping)
            ready = {version.use_case.module for version in versions}
        hanging = {attempt.module for attempt in self._hanging}
        refused = {refused.module for refused in self._refused.values()}
        # The engine last: what was ready a moment ago is there by now.
        needed = ready | hanging | refused | self.driver.parts.engine.modules()
        if forgotten := forget_all_but(needed):
            # It may close clients of servers, which may hang; left alone, a turn would do it that
            # happens to collect garbage.
            freeing = partial(_take_apart, forgotten)
            threading.Thread(target=freeing, name="headrace-freeing", daemon=True).start()

    def _tell(self, wanted: Iterable[Deployment]) -> None:
        """Answer deployments in the store, if there is anything new to say."""
        number = self.driver.leases.joined_as
        answers = [answer for answer in map(self._answer, wanted) if answer is not None]
        if number is None or self._told == (number, answers):
            return
        if self.driver.parts.store.membership.answer(self.driver.name, number, answers):
            self._told = (number, answers)

    def _answer(self, deployment: Deployment) -> Answer | None:
        name = deployment.use_case
        with self._lock:
            runs, since_s = self._runs.get(name, (None, 0.0))
        refused = self._refused.get(name)
        if refused is not None:
            return refused.answer(self.driver.name, None if runs is None else runs.digest)
        if runs is None:
            return None
        return Answer(self.driver.name, name, runs.revision, runs.digest, since_s)


def _asked(deployment: Deployment) -> tuple[str, int]:
    """What is the same as long as nobody deploys it again."""
    return deployment.use_case, deployment.revision


def _take_apart(modules: Iterable[ModuleType]) -> None:
    """Let go what modules hold that nobody has any more; what is closed then may hang."""
    for module in modules:
        vars(module).clear()
    gc.collect()
