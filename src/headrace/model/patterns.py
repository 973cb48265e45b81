"""Names and addresses with a place for a tenant: ``{tenant}``, as it is, and nothing more.

Python's ``{tenant:.2}`` would give two tenants one name, and their records to each other. So the
place is filled by replacing that word, and what else stands in braces is refused where it is said.
"""

from __future__ import annotations

import re
from typing import Final

TENANT: Final = "{tenant}"
_LIKE_IT = re.compile(r"\{[^{}]*tenant[^{}]*\}", re.IGNORECASE)


def has_other_braces(pattern: str) -> bool:
    """Whether more stands in braces than the tenant."""
    return bool(set("{}") & set(pattern.replace(TENANT, "")))


def misspelt_place(address: str) -> str | None:
    """What an address has that looks like the place and is none; its other braces may be right."""
    return next((found for found in _LIKE_IT.findall(address) if found != TENANT), None)
