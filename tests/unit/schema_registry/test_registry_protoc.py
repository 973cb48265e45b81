"""A Protobuf text is somebody else's: the compiler reads nothing for it but what it was given."""

import tempfile

import pytest

from headrace.ports.schemas import SchemaKind, WrittenSchema
from headrace.schema_registry.judging import form_of
from headrace.schema_registry.rules.protobuf_form import SELF
from headrace.schema_registry.rules.texts import BadSchema

HERE = 'syntax="proto3"; message OfThisMachine { int32 secret = 1; }'


def importing(name, *references):
    text = f'syntax="proto3"; import "{name}"; message M {{ OfThisMachine a = 1; }}'
    return form_of(WrittenSchema(SchemaKind.PROTOBUF, text, references))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the compiler's own folders are made, and it is started; a schema lies there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.proto").write_text(HERE)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "{folder}/x.proto",
        "/{folder}/x.proto",
        "x.proto",
        "./x.proto",
        "../x.proto",
        "../../x.proto",
        "google/../../../x.proto",
        "file://{folder}/x.proto",
    ],
)
def test_a_text_imports_no_file_of_this_machine(folder, name):
    name = name.format(folder=folder)
    assert importing("given.proto", ("given.proto", HERE)).canonical
    with pytest.raises(BadSchema) as caught:
        importing(name)
    assert "not found" in str(caught.value) or "Backslashes" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_what_a_text_imports_imports_no_file_of_this_machine_either(folder):
    for name in (f"{folder}/x.proto", "../x.proto"):
        other = f'syntax="proto3"; import public "{name}";'
        with pytest.raises(BadSchema, match="not found"):
            importing("other.proto", ("other.proto", other))


@pytest.mark.parametrize(
    "names",
    [
        ["{folder}/y.proto"],
        ["../y.proto"],
        ["a/../../y.proto"],
        ["-y.proto"],
        ["."],
        ["a/"],
        ["./a.proto"],
        ["y" * 260],
        ["a.proto", "a.proto/b.proto"],
        ["a.proto/b.proto", "a.proto"],
    ],
)
def test_a_reference_is_written_nowhere_but_where_it_is_to_be_read(folder, names):
    references = [(name.format(folder=folder), HERE) for name in names]
    with pytest.raises(BadSchema, match="no name of a file that can be imported"):
        importing("x.proto", *references)
    assert [path.name for path in folder.iterdir()] == ["x.proto"]


def test_a_reference_named_as_the_schema_itself_is_refused_and_not_dropped(folder):
    with pytest.raises(BadSchema, match="the schema itself is"):
        importing(SELF, (SELF, HERE))


PART = 'syntax="proto3";\nmessage X { int32 y = 1; int32 z = 1; }'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'syntax="proto3";\nmessage A { strin x = 1; }',
            'line 2, column 13: "strin" is not defined.',
        ),
        ("message A {", "line 1, column 12: Reached end of input in message definition"),
        (
            'syntax="proto3"; import "a/b.proto";',
            'a/b.proto, line 2, column 36: Field number 1 has already been used in "X"',
        ),
        ('syntax="proto3";\nimport "none.proto";', "none.proto: File not found.; line 2, column 1"),
        (
            'syntax="proto2"; message A { optional string a = 1 [default = "/:1:2: "]; X b = 2; }',
            "line 1, column 75: Expected",
        ),
    ],
)
def test_what_protoc_refuses_is_told_by_its_line_and_without_our_folders(folder, text, told):
    with pytest.raises(BadSchema) as caught:
        form_of(WrittenSchema(SchemaKind.PROTOBUF, text, (("a/b.proto", PART),)))
    found = str(caught.value)
    assert found.startswith(f"protoc refuses it: {told}")
    for word in (str(folder), "/tmp", SELF, "headrace", "absl", "W0000", "\n"):
        assert word not in found
