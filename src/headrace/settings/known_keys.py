"""Which keys there are where one stands that there is not.

Who mistypes a key wants to read the right one, and who guesses wants to see what there is. Both are
in the models of the settings; what is of free names, such as ``kafka``, has no list.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel


def no_such_key(whole: type[BaseModel], location: Sequence[int | str]) -> str:
    """What to say of a key that there is not.

    Args:
        whole: of all settings.
        location: where it stands, itself last.
    """
    kind: Any = whole
    for part in location[:-1]:
        kind = _within(_section(kind), str(part))
    section = _section(kind)
    if not _is_model(section):
        return "there is no such key"
    keys = sorted(_keys(section))
    near = get_close_matches(str(location[-1]), keys, n=1)
    told = f"is {near[0]!r} meant?" if near else f"there are {', '.join(keys)}"
    return f"there is no such key; {told}"


def _within(section: Any, key: str) -> Any:
    """What stands under a key of a section; None if that is not known."""
    if _is_model(section):
        return _keys(section).get(key)
    return get_args(section)[-1] if get_origin(section) in (dict, list) else None


def _section(kind: Any) -> Any:
    """Of what may also be left out or be a plain value, the section that it may be."""
    if get_origin(kind) is Annotated:
        return _section(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        found = map(_section, get_args(kind))
        return next((one for one in found if _is_model(one) or get_origin(one)), None)
    return kind


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _keys(section: type[BaseModel]) -> dict[str, Any]:
    """What stands under each key, by the names that people write."""
    fields = section.model_fields.items()
    return {field.alias or name: field.annotation for name, field in fields}
