"""What is over, and only takes room in a list.

A rerun that came to its end stays in the store: its number is not given again, and what it did can
be looked up. A service that mends its use cases often has hundreds of them, among which the use
cases that run would not be found. Removed tenants and streams say it by their state; of a rerun its
streams do.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.records import Deployment
from headrace.model.streams import RERUN_MARK, State, Stream


def reruns_over(deployments: Iterable[Deployment], streams: Iterable[Stream]) -> frozenset[str]:
    """Reruns that no stream goes on with: they came to their end, or were removed.

    One without any stream was cut off while it was begun, and never runs.
    """
    runs = {stream.id.use_case for stream in streams if stream.state is not State.REMOVED}
    return frozenset(
        deployment.use_case
        for deployment in deployments
        if RERUN_MARK in deployment.use_case and deployment.use_case not in runs
    )
