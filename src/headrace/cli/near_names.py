"""What somebody may have meant who typed a name that nobody added.

A slip of one letter is found faster by who has the right name before their eyes. So an error about
an unknown tenant, use case or stream that is shown in a terminal ends with the nearest name that is
there, if one is near. Over HTTP it does not: whoever may not list tenants would learn their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches

from headrace.errors import HeadraceError, UnknownName
from headrace.model.streams import State
from headrace.operating.over import reruns_over
from headrace.ports import Registry, Store

#: how much of two names has to be the same, from 0 to 1
_ALIKE = 0.75


@contextmanager
def told_what_is_near(store: Store) -> Iterator[None]:
    """Add to an error about an unknown name the nearest one that is there."""
    try:
        yield
    except UnknownName as error:
        near = ""
        with suppress(HeadraceError):  # the name is what is wrong, whatever else is
            near = nearest(error.name, _known(store.registry, error.kind))
        if not near:
            raise
        raise UnknownName(f"{error}; did you mean {near}?") from error


def nearest(name: str, known: list[str]) -> str:
    """The name that is most like one that is not there; empty: none is like it."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=_ALIKE)), "")


def _known(registry: Registry, kind: str) -> list[str]:
    """Names of a kind, without those that are over."""
    if kind == "tenant":
        return [one.name for one in registry.tenants() if one.state is not State.REMOVED]
    if kind == "use case":
        deployments = registry.deployments()
        over = reruns_over(deployments, registry.streams())
        return [one.use_case for one in deployments if one.use_case not in over]
    if kind == "stream":
        return [str(one.id) for one in registry.streams() if one.state is not State.REMOVED]
    return []
