"""``protoc``, for the text of a Protobuf file: a process of its own, with a time and a place.

What a ``.proto`` text means is said by its compiler and by nobody else, so the compiler is asked
(the one within ``grpcio-tools``). It is a program that reads files that others name, so it runs in
a folder made for it, of which all names are checked before, and is ended when it takes too long.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from headrace.errors import ConfigError
from headrace.schema_registry.rules.protobuf_form import SELF
from headrace.schema_registry.rules.texts import BadSchema

#: less than a judge has for one schema
_DEADLINE_S = 5.0
#: the compiler alone: the package around it imports grpc, which takes four times as long
_RUN = """
import sys
sys.path[:0] = [sys.argv[1]]
from grpc_tools import _protoc_compiler
sys.exit(_protoc_compiler.run_main([part.encode() for part in ["protoc", *sys.argv[2:]]]))
"""
_NAME = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./-]{0,300}")
#: of what its library says for those who wrote it
_OF_A_LOG = re.compile(r"WARNING: All log|[IWEF][0-9]{4} ")
#: how it says where
_PLACE = re.compile(r"([^:]+):([0-9]+):([0-9]+): (.*)")
#: of one folder or file
_MOST_NAME = 255


def compiled(
    text: str, others: Sequence[tuple[str, str]], described: Sequence[FileDescriptorProto]
) -> list[FileDescriptorProto]:
    """The files that a text comes to; a ``Compile`` of ``rules.protobuf_form``.

    Raises:
        BadSchema: protoc refuses it, and says why.
        ConfigError: there is no protoc.
    """
    packages, built_in = _places()
    if any(name == SELF for name, _ in others):
        raise BadSchema(f"a reference may not be named {SELF}: the schema itself is")
    with tempfile.TemporaryDirectory(prefix="headrace-protoc-") as name:
        folder = Path(name)
        for other, content in [*others, (SELF, text)]:
            _write(folder / "in", other, content)
        out, known = folder / "out", folder / "known"
        given = []
        if described:
            known.write_bytes(FileDescriptorSet(file=described).SerializeToString())
            given = [f"--descriptor_set_in={known}"]
        _run(
            packages,
            folder / "in",
            [
                *given,
                f"-I{folder / 'in'}",
                f"-I{built_in}",
                "--include_imports",
                f"--descriptor_set_out={out}",
                SELF,
            ],
        )
        return list(FileDescriptorSet.FromString(out.read_bytes()).file)


def _run(packages: Path, folder: Path, words: Sequence[str]) -> None:
    command = [sys.executable, "-I", "-S", "-c", _RUN, str(packages), *words]
    try:
        done = subprocess.run(  # noqa: S603 - our own words and checked names
            command, capture_output=True, timeout=_DEADLINE_S, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as exc:
        raise BadSchema(f"protoc takes longer than {_DEADLINE_S:g} s for it") from exc
    if done.returncode != 0:
        said = _told(done.stderr.decode(errors="replace"), folder)
        raise BadSchema(f"protoc refuses it: {said[:800] or f'exit {done.returncode}'}")


def _told(said: str, folder: Path) -> str:
    """What the compiler says of texts: by their lines, and of no folder of this machine."""
    lines = [line for line in said.splitlines() if not _OF_A_LOG.match(line)]
    return "; ".join(_told_of_line(line.removeprefix(f"{folder}/")) for line in lines if line)


def _told_of_line(line: str) -> str:
    place = _PLACE.fullmatch(line)
    if place is None:
        return line.replace(SELF, "the schema")
    name, at, column, words = place.groups()
    file = "" if name == SELF else f"{name}, "
    return f"{file}line {at}, column {column}: {words.replace(SELF, 'the schema')}"


def _write(folder: Path, name: str, content: str) -> None:
    parts = PurePosixPath(name).parts
    # Written in one way, or two names would be one file.
    is_plain = "/".join(parts) == name and ".." not in parts
    wrong = BadSchema(f"{name[:100]!r} is no name of a file that can be imported")
    if not _NAME.fullmatch(name) or not is_plain or len(max(parts, key=len)) > _MOST_NAME:
        raise wrong
    path = folder.joinpath(*parts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise wrong from None
    except UnicodeEncodeError as exc:
        raise BadSchema("it is not whole text: there is half a character in it") from exc


def _places() -> tuple[Path, Path]:
    """Where packages are, and the files that come with the compiler."""
    spec = find_spec("grpc_tools")
    if spec is None or spec.origin is None:
        raise ConfigError("Protobuf needs protoc: pip install 'headrace[registry-server]'")
    package = Path(spec.origin).parent
    return package.parent, package / "_proto"
