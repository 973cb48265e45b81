"""Lines of the log tell what went wrong, and no secret that was at hand then."""

import pytest
import structlog

from headrace.cli.console import LogFormat, configure_logs

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
