"""Loading use cases from a file, and a changed one beside the old."""

import pytest

from headrace.cycle.loading import digest_of, find_module, load_module
from headrace.errors import ConfigError

SOURCE = """\
from headrace import use_case
from headrace.sinks import ParquetFiles

@use_case(topic="{{tenant}}.visits", sink=ParquetFiles("x"), name="{name}")
def handler(table, context):
    return {answer}
"""


def write(folder, name="count", answer="1"):
    path = folder / "use_cases.py"
    path.write_text(SOURCE.format(name=name, answer=answer))
    return path


def test_a_changed_file_is_loaded_beside_the_old_version(tmp_path):
    old = load_module(write(tmp_path, answer="1"))
    new = load_module(write(tmp_path, answer="2"))
    assert old.use_cases["count"](None, None) == 1
    assert new.use_cases["count"](None, None) == 2
    assert old.digest != new.digest == digest_of(tmp_path / "use_cases.py")


def test_a_path_is_relative_to_the_yaml_file(tmp_path):
    path = write(tmp_path)
    assert find_module("use_cases.py", tmp_path) == path
    assert find_module("./use_cases.py", tmp_path) == path


def test_a_dotted_name_is_found_where_python_finds_it(tmp_path):
    assert find_module("headrace.errors", tmp_path).name == "errors.py"


@pytest.mark.parametrize(
    ("name", "told"),
    [("none.py", "there is no file"), ("no_such_module", "not installed"), ("a.b.c", "a.b.c")],
)
def test_a_module_that_is_not_there_is_named(tmp_path, name, told):
    with pytest.raises(ConfigError, match=told):
        find_module(name, tmp_path)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\n", "holds no use case"),
        ("x = 1\ny = x / 0\n", r"line 2, does not import: ZeroDivisionError"),
        ("def broken(:\n", r"line 1, does not import: SyntaxError"),
        (
            SOURCE.format(name="a", answer="1")
            + SOURCE.format(name="a", answer="2").replace("def handler", "def other"),
            "two use cases named a",
        ),
        (
            "from headrace import use_case\n\n@use_case(topic='visits')\ndef f(t, c): ...\n",
            "needs {tenant} in it",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_line(tmp_path, source, told):
    path = tmp_path / "use_cases.py"
    path.write_text(source)
    with pytest.raises(ConfigError, match=told) as caught:
        load_module(path)
    assert str(path) in str(caught.value)
