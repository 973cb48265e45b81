"""What a Python worker keeps from one task to the next: code that was unpickled, and warm clients.

A worker lives for weeks, and use cases are deployed while it does. A version is unpickled once for
each worker, so that what a handler keeps in its module (a model, a cache) is there for the next
task. But each version has its own, and a worker that never let go of one would grow with every
deployment. Only the driver knows which versions waves in flight, or those to come, may still ask
for. So each task brings that list, and whatever is not on it is dropped.

A task that waited for long may bring a list that is older than the last one. Then newer code is
dropped, and loaded again by the next task that needs it.

A version that cannot be loaded here, for a package that is not installed say, is not kept: a later
task tries again. One that sets for its process what cannot be put back is refused as well, as it is
by the check of a deploy and by drivers, which may do more than a worker or see less; and the worker
has it for good, so it runs nothing more, and ends behind its task.
"""

from __future__ import annotations

import importlib
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import cloudpickle

from headrace.errors import CodeNotLoaded, TaskLost, words_of
from headrace.spark.load_settings import load_apart
from headrace.spark.shipping import home_of
from headrace.versions.loading import forget_all_but


class Fetch(Protocol):
    """Where what was pickled is, for a worker that has not got it."""

    @property
    def value(self) -> bytes:
        """What it is; takes its time."""


@dataclass(slots=True)
class WorkerCache:
    """Code by its digest, and clients by their addresses."""

    #: something was loaded or dropped since ``changed`` was set to False
    changed: bool = False
    #: what is to be freed when the task is over
    dropped: list[Any] = field(default_factory=list)
    #: why this process is of no use any more
    spoiled: CodeNotLoaded | None = None
    _codes: dict[str, Any] = field(default_factory=dict)
    _clients: dict[bytes, Any] = field(default_factory=dict)

    def code(self, digest: str, pickled: bytes | Fetch) -> Any:
        """What was pickled, unpickled at the first call.

        Raises:
            CodeNotLoaded: it needs something that is not there.
        """
        if self.spoiled is not None:
            raise self.spoiled
        if digest not in self._codes:
            code = pickled if isinstance(pickled, bytes) else pickled.value
            self._codes[digest] = loaded(code, self._spoil)
            self.changed = True
        return self._codes[digest]

    def demand_whole(self) -> None:
        """See that no code that was loaded by an earlier task has spoiled this process.

        Raises:
            TaskLost: it has; whose it was is told by the receipts of that task.
        """
        if self.spoiled is not None:
            raise TaskLost(
                f"a Python worker on executor {socket.gethostname()} ends, for code of a use case "
                "that it has loaded sets what cannot be put back"
            )

    def _spoil(self, lost: list[str]) -> None:
        self.spoiled = CodeNotLoaded(
            f"its code sets {', '.join(lost)} when it is imported on executor "
            f"{socket.gethostname()}, and that cannot be put back there: all use cases of the "
            "worker would have it, so it ends; leave it out"
        )
        raise self.spoiled

    def clients(self, address: bytes, opened: Callable[[], Any]) -> Any:
        """The clients for an address, opened at the first call."""
        if address not in self._clients:
            self._clients[address] = opened()
            self.changed = True
        return self._clients[address]

    def drop_all_but(self, needed: Collection[str]) -> None:
        """Drop code that no task will ask for any more; what closes then may hang (`heap.py`)."""
        superseded = self._codes.keys() - needed
        self.dropped += [self._codes.pop(digest) for digest in superseded]
        if superseded:
            # Else the modules of a version would stay importable, and so alive.
            self.dropped += forget_all_but([home_of(code) for code in self._codes.values()])
            self.changed = True


def loaded(pickled: bytes, refuse: Callable[[list[str]], None]) -> Any:
    """Unpickle what a driver has sent.

    Args:
        pickled: what it is.
        refuse: raises where it sets what cannot be put back.

    Raises:
        CodeNotLoaded: it does not unpickle here, which a later try may.
    """
    try:
        return load_apart(lambda: cloudpickle.loads(pickled), refuse)
    except CodeNotLoaded:
        raise
    except BaseException as error:
        # Else a package that is installed meanwhile would not be seen.
        importlib.invalidate_caches()
        raise CodeNotLoaded(_why(error)) from error


def _why(error: BaseException) -> str:
    where = f"on executor {socket.gethostname()}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        return not_installed(error.name, where)
    return (
        f"its code does not load {where}: {words_of(error)}; give executors the "
        "packages and versions that the driver has, or deploy it without what does not load"
    )


def not_installed(module: str, where: str) -> str:
    """What is said of a module that is not installed, and what to do."""
    package = module.partition(".")[0]
    return (
        f"package {package} is not installed {where} (No module named '{module}'); install it "
        "wherever executors run, in their image or archive (spark.archives), or deploy the use "
        "case without it"
    )
