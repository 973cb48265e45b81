"""Lines of the log tell what went wrong, and no secret that was at hand then."""

import json

import pytest
import structlog

from headrace.cli.console import LogFormat, configure_logs
from headrace.errors import StoreUnavailable

KEY = "hr_abcdefgh_of-somebody"


@pytest.mark.parametrize("form", [LogFormat.PRETTY, LogFormat.JSON])
def test_a_traceback_shows_no_variables(form, capsys):
    def fail(key):
        raise ValueError(f"{len(key)} characters")

    configure_logs("INFO", form)
    try:
        fail(KEY)
    except ValueError as error:
        structlog.get_logger().error("request failed", exc_info=error)
    told = capsys.readouterr().err
    assert "ValueError: 23 characters" in told
    assert KEY not in told


def test_a_server_that_is_away_is_one_line_without_a_traceback(capsys):
    configure_logs("INFO", LogFormat.JSON)
    error = StoreUnavailable("store postgresql://db/x: gone\nis it running?")
    structlog.get_logger().error("request failed", incident="ab12", exc_info=error)
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert (told["incident"], "exception" in told) == ("ab12", False)
    assert told["error"] == "StoreUnavailable: store postgresql://db/x: gone is it running?"
