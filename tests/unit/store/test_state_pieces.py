"""How many rows of state one statement brings."""

from headrace.store.state import AT_ONCE_BYTES, pieces


def row(number, size):
    return ("score", "acme", "acme.visits[0]", "seen", b"%d" % number, b"x" * size)


def test_no_statement_brings_more_than_so_many_bytes_but_for_a_row_that_is_larger():
    half = AT_ONCE_BYTES // 2
    rows = [row(number, size) for number, size in enumerate([1, 2, half, half, 3 * half, 4, 5])]
    found = list(pieces(rows))
    assert [one for some in found for one in some] == rows
    assert [len(some) for some in found] == [3, 1, 1, 2]
    assert list(pieces(rows[:2])) == [rows[:2]]
