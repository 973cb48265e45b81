"""What a package says it has it has, and whoever needs little imports little."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from headrace.late_imports import imported_late

LATE = ["headrace", "headrace.sinks", "headrace.store"]


@pytest.mark.parametrize("package", LATE)
def test_a_package_has_each_name_that_it_offers_from_where_type_checkers_have_it(package):
    module = import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text())
    checked = {
        name.name: line.module
        for block in tree.body
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }
    assert sorted(module.__all__) == sorted(checked)
    for name, place in checked.items():
        assert getattr(module, name) is getattr(import_module(place), name)
    assert set(checked) <= set(dir(module))


def test_a_name_that_a_package_does_not_offer_is_no_attribute_of_it():
    found, _ = imported_late("headrace", {"headrace.errors": ("BadRecord",)})
    with pytest.raises(AttributeError, match="module 'headrace' has no attribute 'use_csae'"):
        found("use_csae")


@pytest.mark.parametrize(
    ("module", "left_out"),
    [
        ("headrace", ["pyarrow", "numpy", "headrace.ports"]),
        ("headrace.sinks", ["pyarrow", "sqlalchemy", "confluent_kafka"]),
        ("headrace.deploying.unpacking_process", ["pyarrow", "headrace.ports"]),
        ("headrace.cli.running", ["headrace.demo", "headrace.console", "fastapi"]),
        (
            "headrace.deploying.checking_process",
            ["alembic", "structlog", "datasketches", "headrace.connectors.delta.sink"],
        ),
    ],
)
def test_it_imports_nothing_that_it_does_not_need(module, left_out):
    code = f"import sys, {module}; print(sorted(set({left_out}) & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
