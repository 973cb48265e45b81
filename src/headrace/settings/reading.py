"""Reading the YAML file: from text to settings, or to errors that name file, line and key."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from headrace.errors import ConfigError
from headrace.settings.fields import UNSET
from headrace.settings.known_keys import no_such_key
from headrace.settings.whole import Settings

#: keys whose values many commands do not need: what their environment lacks is told when it is
_LATER = ("kafka", "registry", "connections")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def read_settings(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the file; relative paths in it start at its folder.

    Raises:
        ConfigError: it is not there, is not YAML, or holds something that cannot be; the message
            names file, line and key, one line for each fault.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        what = (
            "'headrace init' makes one with all that belongs to it; or write it ('module: "
            "use_cases.py' is enough), or name yours with --config"
        )
        raise ConfigError(f"there is no {path}: {what}") from exc
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"{path} is not UTF-8 text: {exc.reason}") from exc
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = _filled(yaml.safe_load(text), environment, path)
    except yaml.YAMLError as exc:
        raise ConfigError(f"{path}: {_yaml_fault(exc)}") from None
    except ValueError as exc:  # such as a day of no month
        raise ConfigError(f"{path}: a value cannot be: {exc}; put text in quotes") from exc
    except RecursionError as exc:
        raise ConfigError(f"{path}: it is nested too deeply, or holds itself") from exc
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: a mapping is expected, such as 'module: use_cases.py'")
    try:
        settings = Settings.model_validate(data)
    except ValidationError as exc:
        faults = [
            f"{path}, line {_line(node, error['loc'])}: "
            f"{'.'.join(str(part) for part in error['loc'])}: {_meaning(error)}"
            for error in exc.errors()
        ]
        raise ConfigError("\n".join(faults)) from exc
    return settings.within(path.resolve().parent)


def _yaml_fault(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "not YAML"
    if isinstance(error, yaml.composer.ComposerError | yaml.constructor.ConstructorError):
        # What it quotes may be a password that nobody put in quotes.
        problem = (
            "an alias or a tag is not known here; text that begins with * or ! stands in quotes"
        )
    if "'\\t'" in problem:
        problem += "; indent with spaces"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)


def _meaning(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return no_such_key(Settings, fault["loc"])
    if fault["type"] == "missing":
        return "this key is missing"
    return str(fault["msg"]).removeprefix("Value error, ")


def _line(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """The line of the deepest part of the location that is in the file."""
    line = 1
    for part in location:
        if not isinstance(node, yaml.MappingNode):
            break
        for key, value in node.value:
            if key.value == str(part):
                line, node = key.start_mark.line + 1, value
                break
        else:
            break
    return line


def _filled(
    value: Any, environment: Mapping[str, str], path: Path, key: str = "", *, now: bool = True
) -> Any:
    """The same with what the environment has; ``now``: all of it has to be there."""
    if isinstance(value, dict):
        return {
            name: _filled(inner, environment, path, name, now=now and (key or name) not in _LATER)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_filled(item, environment, path, key, now=now) for item in value]
    if not isinstance(value, str):
        return value
    missing = [name for name in _VARIABLE.findall(value) if name not in environment]
    if missing and not now:
        return f"{UNSET}{missing[0]}"
    if missing:
        raise ConfigError(
            f"{path}: ${{{missing[0]}}} is used, but the environment has no such name"
        )
    return _VARIABLE.sub(lambda match: environment[match.group(1)], value)
