"""The files to start a service from: what they call exists, and their times fit."""

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.app import app
from headrace.process.signals import CLOSE_S
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
    assert float(unit["TimeoutStopSec"]) >= DriverSettings().drain_timeout + CLOSE_S


def test_systemd_asks_the_supervisor_alone_to_stop(unit):
    assert unit["KillMode"] == "mixed"
    assert unit["Type"] == "notify"


@pytest.fixture(scope="module")
def image():
    return (PACKAGING / "Dockerfile").read_text().replace("\\\n", "")


def test_the_images_command_can_be_typed_and_its_folders_are_there(image):
    text = re.sub(r"^COPY --from=.*$", "", image, flags=re.MULTILINE)
    (words,) = (json.loads(line) for line in re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE))
    assert can_be_typed(words)
    for line in re.findall(r"^COPY (.*) \S+$", text, re.MULTILINE):
        for name in line.split():
            assert (PACKAGING.parent / name).exists()


def test_the_image_is_built_on_a_base_that_is_named_by_its_digest(image):
    (base,) = re.findall(r"^ARG PYTHON=(\S+)$", image, re.MULTILINE)
    assert re.fullmatch(r"python:3\.11-slim-bookworm@sha256:[0-9a-f]{64}", base)
    stages = re.findall(r"^FROM (\S+)", image, re.MULTILINE)
    assert set(stages) == {"${PYTHON}"}


def test_every_package_in_the_image_is_checked_against_a_hash(image):
    installs = re.findall(r"^RUN (pip \S+ [^&\n]*)", image, re.MULTILINE)
    locks = {install.split()[-1] for install in installs if "--require-hashes" in install}
    assert {Path(lock).name for lock in locks} == {"build.lock", "requirements.lock"}
    # What is left is ours alone: no dependency of it, and nothing that its build would fetch.
    assert all("--require-hashes" in install or "--no-deps" in install for install in installs)
    assert all(
        "--no-build-isolation" in install for install in installs if install.startswith("pip wheel")
    )


def test_the_lock_of_the_build_has_what_the_build_needs():
    project = tomllib.loads((PACKAGING.parent / "pyproject.toml").read_text())
    locked = (PACKAGING / "build.lock").read_text()
    for require in project["build-system"]["requires"]:
        assert f"{require} \\\n    --hash=sha256:" in locked
