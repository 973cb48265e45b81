"""Which family a type of Arrow is of, however it is stored: text is text in any of its layouts."""

from __future__ import annotations

from typing import Any

import pyarrow.types as at


def stored(arrow: Any) -> Any:
    """The type of what a dictionary, or runs of equal values, stand for."""
    while at.is_dictionary(arrow) or at.is_run_end_encoded(arrow):
        arrow = arrow.value_type
    return arrow


def is_text(arrow: Any) -> bool:
    """Whether values are text."""
    return at.is_string(arrow) or at.is_large_string(arrow) or at.is_string_view(arrow)


def is_bytes(arrow: Any) -> bool:
    """Whether values are bytes."""
    if at.is_fixed_size_binary(arrow) or at.is_binary_view(arrow):
        return True
    return at.is_binary(arrow) or at.is_large_binary(arrow)


def is_list(arrow: Any) -> bool:
    """Whether values are lists."""
    if at.is_list_view(arrow) or at.is_large_list_view(arrow) or at.is_fixed_size_list(arrow):
        return True
    return at.is_list(arrow) or at.is_large_list(arrow)
