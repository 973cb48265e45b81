"""Commands as somebody types them, without a process for each.

A process of its own takes seconds to import what this one has long since imported, and tests type
some hundred commands. What only a process shows, the way from exit codes and outputs to a shell,
is seen by the tests that call ``in_a_shell``.
"""

import os
import subprocess
import sys
from contextlib import chdir

import structlog
from typer.testing import CliRunner

from headrace.cli.app import app

#: no line of an answer is broken
WIDE = {"COLUMNS": "300"}


def typed(folder, *words):
    """What a command said that was typed in ``folder``, and how it ended."""
    try:
        with chdir(folder):
            done = CliRunner(env=WIDE).invoke(app, words, catch_exceptions=False)
    finally:
        structlog.reset_defaults()  # to an output that is there
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def in_a_shell(folder, *words):
    """The same by a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "headrace", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **WIDE},
        check=False,
    )
