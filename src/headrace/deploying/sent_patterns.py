r"""Whether a pattern matches a topic that the gateway sends to, of whatever tenant.

The gateway writes to ``<tenant>.<topic>``, and tenants come that nobody knows yet. So it is not
tried with some names: of the pattern a machine is made that goes from state to state by a letter
(K. Thompson, "Regular expression search algorithm", 1968), and it is walked together with the
names of tenants, a dot and the topic. Where both can end, the letters of the shortest way are a
topic that would be read. There is no such way, or the pattern matches no such topic.

What stands for a place and no letter, as ``^`` and ``\b``, counts as if it always held, so a
pattern may be refused for a topic that it does not match, and none is let by that it does. One that
is too large to be walked counts as if it did, too.
"""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from re import _constants as op  # type: ignore[attr-defined] # in all versions that we run on
from re import _parser  # type: ignore[attr-defined] # the same
from typing import Any, Final

from headrace.model.topic_patterns import is_aside, pattern_of

_NAME: Final = frozenset(string.ascii_lowercase + string.digits)
_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")
_DIGITS, _WORD = frozenset(string.digits), _LETTERS - {".", "-"}
_CLASSES: Final = {
    op.CATEGORY_DIGIT: _DIGITS,
    op.CATEGORY_NOT_DIGIT: _LETTERS - _DIGITS,
    op.CATEGORY_WORD: _WORD,
    op.CATEGORY_NOT_WORD: _LETTERS - _WORD,
    op.CATEGORY_SPACE: frozenset[str](),
    op.CATEGORY_NOT_SPACE: _LETTERS,
}
_MOST_STATES: Final = 20_000
_LONGEST_NAME: Final = 63
#: a tenant of a pattern that cannot be walked, to be named
_SOMEBODY: Final = "acme"


def tenant_sent_to(text: str, sent: str) -> str | None:
    """A tenant whose topic a pattern matches; None: it matches no such topic of any tenant.

    Args:
        text: what a use case reads, by a pattern.
        sent: where the gateway sends a kind of events, without the tenant.
    """
    if is_aside(sent):
        return None
    parsed = _parser.parse(pattern_of(text))
    machine = _Machine()
    try:
        end = machine.after(0, parsed, ignores=bool(parsed.state.flags & re.IGNORECASE))
    except _TooLarge:
        return _SOMEBODY
    name = machine.shortest(end, sent)
    return name if name is not None and len(name) <= _LONGEST_NAME else None


class _TooLarge(Exception):
    """A machine would have too many states."""


@dataclass(slots=True)
class _Machine:
    """States of a pattern: where each goes by itself, and where by letters."""

    free: list[list[int]] = field(default_factory=lambda: [[]])
    by: list[list[tuple[frozenset[str], int]]] = field(default_factory=lambda: [[]])

    def after(self, at: int, items: Iterable[tuple[Any, Any]], *, ignores: bool) -> int:
        """The state behind a sequence that begins in one."""
        for what, how in items:
            at = self._after_one(at, what, how, ignores=ignores)
        return at

    def shortest(self, end: int, sent: str) -> str | None:
        """The shortest name with which a name, a dot and ``sent`` come to the end, if any does."""
        # 0: nothing was read; 1: letters of a name; more: the dot, and so many letters of ``sent``.
        tail = f".{sent}"
        seen, ways = set[tuple[int, int]](), deque([(0, 0, "")])
        while ways:
            state, read, name = ways.popleft()
            if state == end and read == 1 + len(tail):
                return name
            if (state, read) in seen:
                continue
            seen.add((state, read))
            for after, further, letter in self._next(state, read, tail):
                # Only letters of the name make a way longer.
                (ways.append if letter else ways.appendleft)((after, further, name + letter))
        return None

    def _next(self, state: int, read: int, tail: str) -> Iterator[tuple[int, int, str]]:
        yield from ((after, read, "") for after in self.free[state])
        for letters, after in self.by[state]:
            if read <= 1:
                allowed = letters & (_NAME if read == 0 else _NAME | {"-"})
                if allowed:
                    yield after, 1, min(allowed, key=lambda one: (one == "-", one))
            if 1 <= read <= len(tail) and tail[read - 1] in letters:
                yield after, read + 1, ""

    def _after_one(self, at: int, what: Any, how: Any, *, ignores: bool) -> int:
        if what in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self._repeated(at, *how, ignores=ignores)
        if what is op.SUBPATTERN:
            _, added, taken, items = how
            ignores = bool((ignores or added & re.IGNORECASE) and not taken & re.IGNORECASE)
            return self.after(at, items, ignores=ignores)
        if what is op.BRANCH:
            return self._joined([self.after(at, items, ignores=ignores) for items in how[1]])
        if what is op.AT:
            return at
        end = self._state()
        self.by[at].append((_letters(what, how, ignores=ignores), end))
        return end

    def _repeated(self, at: int, least: int, most: Any, items: Any, *, ignores: bool) -> int:
        for _ in range(least):
            at = self.after(at, items, ignores=ignores)
        if most is op.MAXREPEAT:
            begin = self._joined([at])
            self.free[self.after(begin, items, ignores=ignores)].append(begin)
            return self._joined([begin])
        ends = [at]
        for _ in range(most - least):
            ends.append(self.after(self._joined(ends[-1:]), items, ignores=ignores))
        return self._joined(ends)

    def _joined(self, states: Iterable[int]) -> int:
        end = self._state()
        for state in states:
            self.free[state].append(end)
        return end

    def _state(self) -> int:
        if len(self.free) >= _MOST_STATES:
            raise _TooLarge
        self.free.append([])
        self.by.append([])
        return len(self.free) - 1


def _letters(what: Any, how: Any, *, ignores: bool) -> frozenset[str]:
    """The letters of topics that one sign of a pattern matches; of what is not known, all."""
    if what is op.LITERAL:
        return _cases(chr(how), ignores=ignores)
    if what is op.NOT_LITERAL:
        return _LETTERS - _cases(chr(how), ignores=ignores)
    if what is op.RANGE:
        found = {letter for letter in _LETTERS if how[0] <= ord(letter) <= how[1]}
        return frozenset().union(*(_cases(letter, ignores=ignores) for letter in found))
    if what is op.CATEGORY:
        return _CLASSES.get(how, _LETTERS)
    if what is op.IN:
        signs = [sign for sign in how if sign[0] is not op.NEGATE]
        found_in = frozenset[str]().union(*(_letters(*sign, ignores=ignores) for sign in signs))
        return found_in if len(signs) == len(how) else _LETTERS - found_in
    return _LETTERS


def _cases(letter: str, *, ignores: bool) -> frozenset[str]:
    return frozenset({letter.lower(), letter.upper()} if ignores else {letter})
