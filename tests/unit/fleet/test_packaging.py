"""The files to start a service from: what they call exists, and their times fit."""

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.cli.fleet import _CLOSE_S
from headrace.settings import DriverSettings

PACKAGING = Path(__file__).parents[3] / "packaging"


@pytest.fixture(scope="module")
def unit():
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(PACKAGING / "headrace.service")
    return parser["Service"]


def can_be_typed(words):
    done = CliRunner().invoke(app, [*words, "--help"])
    return done.exit_code == 0 and "Usage" in done.output


def test_the_units_command_can_be_typed(unit):
    program, *words = shlex.split(unit["ExecStart"])
    assert Path(program).name == "headrace"
    assert can_be_typed(words)


def test_systemd_waits_longer_than_a_drain_may_take(unit):
    assert float(unit["TimeoutStopSec"]) >= DriverSettings().drain_timeout + _CLOSE_S


def test_systemd_asks_the_supervisor_alone_to_stop(unit):
    assert unit["KillMode"] == "mixed"
    assert unit["Type"] == "notify"


def test_the_images_command_can_be_typed_and_its_folders_are_there():
    text = (PACKAGING / "Dockerfile").read_text().replace("\\\n", "")
    (words,) = (json.loads(line) for line in re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE))
    assert can_be_typed(words)
    for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert (PACKAGING.parent / name).exists()
