"""The command line: `headrace --help`.

One file a group of commands. A command reads its settings, calls one thing and shows the answer;
whatever it decides is decided elsewhere. Errors are one clear message on stderr: exit code 2 for a
wrong call or configuration, 75 for what may work if tried again, 1 for anything else that failed.
"""

from headrace.cli.app import main

__all__ = ["main"]
