"""What every route works with, made once for the app."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from headrace.console.places import Places
from headrace.console.watcher import Watcher
from headrace.operating.tools import DecisionTools
from headrace.ports import Clock, Store


@dataclass(frozen=True)
class Desk:
    """The parts of the control API."""

    store: Store
    tools: DecisionTools
    #: what keys are made with
    secret: bytes = field(repr=False)
    clock: Clock
    watcher: Watcher
    at_kafka: Places
    #: ids of schemas that drivers tell are those of the store
    own_registry: bool = True


def desk_of(request: Request) -> Desk:
    """The desk of the app that was asked."""
    desk = request.app.state.desk
    assert isinstance(desk, Desk), "the app was made with a desk"
    return desk


AtDesk = Annotated[Desk, Depends(desk_of)]
