"""Telling a folder from the URL of one.

``s3a://bucket/files`` is a fine relative path: a folder ``s3a:`` is made, on each machine its own,
and nobody notices before something is missing. What reads and writes by the operating system's own
calls cannot follow a URL, so a URL is refused where it is said. What is no URL may still be a
folder that executors do not share; that only they can tell (`spark/shared_folder.py`).
"""

from __future__ import annotations

import re

_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*:[/\\]|file:)", re.IGNORECASE)


def is_url(path: str) -> bool:
    """Whether ``path`` names a place by a scheme: ``s3a://x``, ``hdfs:/x``, ``file:x``."""
    return _URL.match(path) is not None
