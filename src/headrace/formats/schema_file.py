"""The text of a schema in JSON, however a use case gives it: a dict, its JSON, or a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import ConfigError


def schema_text(schema: str | Path | Mapping[str, Any], kind: str) -> str:
    """The JSON of a schema; a path is read now.

    Args:
        schema: what is given.
        kind: what a message calls it.

    Raises:
        ConfigError: it is nothing of that, or there is no such file.
    """
    if isinstance(schema, Mapping):
        try:
            return json.dumps(schema)
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigError(f"a schema is no JSON: {error}") from None
    if not isinstance(schema, str | Path):
        raise ConfigError(f"{kind} is given as a dict, its JSON, or the path of a file")
    text = str(schema)
    if isinstance(schema, str) and (text.lstrip()[:1] in ("{", "[", '"') or "." not in text):
        return text
    try:
        return Path(text).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"the schema in {text} cannot be read: {error}") from None
