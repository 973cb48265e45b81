"""An error of somebody else is told in words, whatever becomes of the attempt to make them."""

import pytest

from headrace.errors import (
    BadRecord,
    OutcomeUnknown,
    Permanent,
    SinkUnavailable,
    as_ours,
    code_of,
    shortened,
    text_of,
    words_of,
)


class Wordless(Exception):
    """As if by a mistake in its ``__str__``."""

    def __str__(self):
        return f"no {self.field}"


class Exits(Exception):
    """Its text ends the process."""

    def __str__(self):
        raise SystemExit


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no number"), "ValueError: no number"),
        (Wordless(), "Wordless: its text cannot be had, AttributeError"),
        (Exits(), "Exits: its text cannot be had, SystemExit"),
    ],
)
def test_an_error_is_told_by_its_kind_and_its_text(error, words):
    assert words_of(error) == words
    assert words.endswith(text_of(error))


def test_a_subclass_of_ours_may_be_somebody_elses():
    class Mine(BadRecord):
        def __str__(self):
            raise KeyError

    assert text_of(Mine(0, "no")) == "its text cannot be had, KeyError"


def test_a_text_that_quotes_all_it_was_given_loses_its_middle():
    told = words_of(ValueError("the head " + "x" * 1_000_000 + " the tail"))
    assert told.startswith("ValueError: the head xxx")
    assert told.endswith("xxx the tail")
    assert "\n… 980018 characters left out …\n" in told
    assert len(told) < 21_000


def test_a_text_of_usual_length_is_left_as_it_is():
    assert shortened("x" * 20_000) == "x" * 20_000


def test_an_error_of_users_is_judged_as_what_it_is_made_of():
    class NoPage(BadRecord):
        """A bad record of a use case's own."""

    assert code_of(NoPage(0, "no page")) == "BadRecord"
    assert code_of(OutcomeUnknown("lost")) == "OutcomeUnknown"


def test_an_error_of_users_becomes_one_of_ours_without_code_of_theirs():
    class Away(SinkUnavailable):
        def __init__(self, host, port):
            super().__init__(f"{host}:{port} is away")

    class NoPage(BadRecord):
        """One that takes more than a text."""

    class Text(str):
        __slots__ = ()

    away = as_ours(Away("db", 5432), text_of(Away("db", 5432)))
    assert (type(away), str(away)) == (SinkUnavailable, "db:5432 is away")
    assert type(as_ours(NoPage(0, "no"), "no page")) is Permanent
    assert type(as_ours(OutcomeUnknown("lost"), "lost")) is OutcomeUnknown
    assert type(text_of(SinkUnavailable(Text("away")))) is str
