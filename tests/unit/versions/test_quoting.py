"""A traceback quotes the version that ran, whatever lies in the folder by now."""

import linecache

import cloudpickle
import pytest

from headrace.spark.shipping import code_of
from headrace.spark.slice_errors import error_of
from headrace.versions import find_module, load_code, read_code
from headrace.versions.loading import nothing_imported

SOURCE = """\
from headrace import use_case
from headrace.sinks import ParquetFiles
import helper

@use_case(topic="{tenant}.visits", sink=ParquetFiles("x"), name="count")
def handler(table, context):
    return helper.{call}
"""


@pytest.fixture
def version(tmp_path):
    """Write a version, and load its use case."""

    def write(call):
        (tmp_path / "use_cases.py").write_text(SOURCE.replace("{call}", call), "utf-8")
        (tmp_path / "helper.py").write_text(f"def {call}:\n    raise ValueError('{call}')\n")
        place = find_module("use_cases.py", tmp_path)
        return load_code(read_code(place), place.path).use_cases["count"]

    return write


def caught(call, kind=ValueError):
    with pytest.raises(kind) as raised:
        call(None, None)
    return raised.value


def quoted(use_case):
    return error_of(caught(use_case)).traceback


def test_the_version_that_ran_is_quoted_and_not_the_file_as_it_is_now(version, tmp_path):
    deployed = version("deployed()")
    (tmp_path / "use_cases.py").write_text("# one\n" * 9, "utf-8")
    (tmp_path / "helper.py").write_text("# two\n" * 9, "utf-8")
    shown = quoted(deployed)
    assert "return helper.deployed()" in shown
    assert "raise ValueError('deployed()')" in shown
    assert "# one" not in shown
    assert "# two" not in shown
    assert f'File "{tmp_path / "helper.py"}", line 2, in deployed' in shown


def test_a_version_that_comes_back_is_quoted_again(version):
    first, second = version("first()"), version("second()")
    for use_case, call in ((first, "first()"), (second, "second()"), (first, "first()")):
        assert f"return helper.{call}" in quoted(use_case)


def test_a_worker_quotes_it_without_the_file(version, tmp_path):
    code = code_of(version("shipped()"))
    for file in ("use_cases.py", "helper.py"):
        (tmp_path / file).unlink()
    with nothing_imported():
        shown = quoted(cloudpickle.loads(code))
    assert "return helper.shipped()" in shown
    assert "raise ValueError('shipped()')" in shown


def test_what_led_to_an_error_is_quoted_too(version, tmp_path):
    deployed = version("deployed()")
    (tmp_path / "helper.py").write_text("# two\n" * 9, "utf-8")
    error = RuntimeError("in other words")
    error.__cause__ = caught(deployed)
    assert "raise ValueError('deployed()')" in error_of(error).traceback


def test_what_python_knows_of_files_stays_as_it_was(version, tmp_path):
    deployed, file = version("deployed()"), str(tmp_path / "use_cases.py")
    linecache.getlines(file)
    before = linecache.cache[file]
    quoted(deployed)
    assert linecache.cache[file] == before
    assert str(tmp_path / "helper.py") not in linecache.cache


def test_one_error_that_stands_in_a_group_very_often_is_told_alone():
    told = error_of(ExceptionGroup("all of them", [ValueError("no JSON")] * 200_000))
    assert "all of them (200000 sub-exceptions)" in told.message
    assert "they are too many" in told.traceback
