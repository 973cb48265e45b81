r"""How much the patterns of a JSON Schema take, in bytes and in time.

A pattern is matched in linear time, but a short one may stand for a large machine:
``(\w{100}){760}`` takes megabytes, and each character of a text may go through all of it. So a
pattern is measured by the least size that it can be made in, of a few; both what it keeps and
how long a character takes grow with that, and one that needs more is refused.

What is large by its looks alone, such as ``\p{L}{30}``, is reckoned as slow, though it may not be.
"""

from __future__ import annotations

import re

import jsonschema_rs

from headrace.errors import ConfigError

#: sizes that are tried, in KiB; the last one has thirty of any letters, and a thousand of any signs
_SIZES = (5, 20, 80, 320, 1280)
#: all of a schema
MOST_KIB = 1536
#: a pattern is read before it is measured, and for each class by a letter (``\\s``) anew
_MOST_CHARACTERS, _MOST_CLASSES = 4000, 100
_CLASS = re.compile(r"\\[dDwWsS]")
#: of all patterns
_MOST_CLASSES_IN_ALL = 1000
#: what is matched with takes more than the size that is bounded: the same backwards, and tables
BYTES_OF_KIB = 4 * 1024

#: how patterns are made: nothing that looks around or back, and nothing larger
LINEAR = jsonschema_rs.RegexOptions(size_limit=_SIZES[-1] * 1024)
#: what is told of one that cannot be
UNUSABLE = (
    f"a pattern may not look around or back, and takes at most {_SIZES[-1]} KiB: repetitions "
    "within repetitions and classes as \\p{L} take much"
)


class PatternSizes:
    """Sizes of the patterns of one schema; each text is measured once."""

    def __init__(self) -> None:
        """None is measured yet."""
        self._known: dict[str, int] = {}
        self._classes = 0

    def __call__(self, pattern: str) -> int:
        """Its size in KiB; that of the largest, where it is none: what compiles it says so.

        Raises:
            ConfigError: it is too long, or all together are too large.
        """
        if pattern not in self._known:
            self._check_length(pattern)
            self._known[pattern] = next((kib for kib in _SIZES if _fits(pattern, kib)), _SIZES[-1])
            check_size(sum(self._known.values()))
        return self._known[pattern]

    def _check_length(self, pattern: str) -> None:
        classes = len(_CLASS.findall(pattern))
        self._classes += classes
        if (
            len(pattern) > _MOST_CHARACTERS
            or classes > _MOST_CLASSES
            or self._classes > _MOST_CLASSES_IN_ALL
        ):
            raise ConfigError(
                f"a pattern may have {_MOST_CHARACTERS} characters and {_MOST_CLASSES} of \\d, \\w "
                f"and \\s, and all of a schema {_MOST_CLASSES_IN_ALL} of these"
            )


def check_size(kib: int) -> None:
    """See that all patterns of a schema are not too large.

    Raises:
        ConfigError: they are.
    """
    if kib > MOST_KIB:
        raise ConfigError(f"the patterns of a JSON Schema may take {MOST_KIB} KiB; these: {kib}")


def _fits(pattern: str, kib: int) -> bool:
    limited = jsonschema_rs.RegexOptions(size_limit=kib * 1024)
    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=limited)
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True
