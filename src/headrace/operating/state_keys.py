"""Which keys somebody means who looks at state.

A store keeps the bytes of a key, and nobody who types one knows how its use case has it. So what is
typed counts as text, and as a number where it is one; other bytes are typed as hexadecimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headrace.errors import ConfigError
from headrace.model.state import MOST_KEY_BYTES, number_key

_NUMBER = re.compile(r"-?[0-9]{1,19}")


def keys_asked(texts: Sequence[str], hexes: Sequence[str]) -> list[bytes] | None:
    """The keys that somebody typed, in bytes, none of them twice; None: nobody typed any.

    Raises:
        ConfigError: it is not hexadecimal, or longer than a key may be.
    """
    found: list[bytes] = []
    for text in texts:
        found.append(text.encode("utf-8", "surrogatepass"))
        if _NUMBER.fullmatch(text) and -(2**63) <= int(text) < 2**63:
            found.append(number_key(int(text)))
    for digits in hexes:
        try:
            found.append(bytes.fromhex(digits))
        except ValueError:
            raise ConfigError(
                f"{digits[:80]!r} is no key: write two hexadecimal digits a byte"
            ) from None
    if any(len(key) > MOST_KEY_BYTES for key in found):
        raise ConfigError(f"a key has {MOST_KEY_BYTES} bytes at most")
    return list(dict.fromkeys(found)) or None
