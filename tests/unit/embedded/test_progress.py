"""Progress without a terminal."""

from headrace.embedded.progress import Progress


def test_without_a_terminal_a_few_plain_lines_are_shown(capsys):
    with Progress("fetching", 20) as progress:
        for number in range(20):
            progress.step(str(number))
    shown = capsys.readouterr()
    assert shown.err == "fetching ...\nfetching: 15/20\nfetching: done\n"
    assert shown.out == ""
