"""Whether a server is one for hashes of which the newest stay: asked at a deploy, which makes none.

What is only likely to be a mistake is told in the log, as far as it shows: a server may let nobody
ask about it.
"""

from __future__ import annotations

import structlog

from headrace.connectors.redis.entries import SCRIPT
from headrace.connectors.redis.library import OF_A_CLUSTER
from headrace.connectors.redis.servers import Cache
from headrace.errors import CodeNotLoaded, ConfigError, HeadraceError, SinkRefused, TargetMissing

log = structlog.get_logger(__name__)


def fit(cache: Cache, where: str) -> None:
    """See that a server takes the script, and all keys.

    Raises:
        ConfigError: it does not.
        SinkUnavailable: it does not answer.
    """
    try:
        cache.asked("SCRIPT LOAD", SCRIPT)
    except (TargetMissing, SinkRefused, CodeNotLoaded) as error:
        raise ConfigError(str(error)) from error
    try:
        told = cache.asked("INFO")
    except HeadraceError as error:
        log.info("what the server is could not be seen", table=where, error=str(error))
        return
    if int(told.get("cluster_enabled", 0)):
        raise ConfigError(f"{cache.where}: {OF_A_CLUSTER}")
    policy = told.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        log.warning(
            "when its memory is full this server drops entries and marks of what is gone, and an "
            "older row that comes then is taken for a new one: let it have noeviction, or enough "
            "memory",
            table=where,
            why=f"maxmemory-policy {policy}",
        )
