"""Messages of Protobuf, told by bytes.

A generated class is made by Protobuf when its module is imported, and travels nowhere. What it was
made from does: the descriptors of its file and of those that this imports. From these each process
makes the class again, in a pool of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from headrace.errors import ConfigError


def told_by(message: Any, descriptors: str | Path | None) -> tuple[str, bytes]:
    """Name and descriptors of a generated class, or of a name in a file of descriptors.

    Raises:
        ConfigError: it is neither, or the file does not have it.
    """
    if isinstance(message, str):
        return message, _read(message, descriptors)
    descriptor = getattr(message, "DESCRIPTOR", None)
    if descriptor is None or not hasattr(message, "FromString") or descriptors is not None:
        raise ConfigError(
            "Protobuf takes a generated class, or a message's name and descriptors=, the path of "
            "what 'protoc --include_imports --descriptor_set_out' writes"
        )
    files = FileDescriptorSet()
    for file in dict.fromkeys(_files(descriptor.file)):
        files.file.append(FileDescriptorProto.FromString(file.serialized_pb))
    return str(descriptor.full_name), files.SerializeToString(deterministic=True)


@lru_cache(maxsize=256)
def class_of(name: str, descriptors: bytes) -> Any:
    """The class of a message.

    Raises:
        ConfigError: the descriptors do not have it, or do not fit together.
    """
    pool = DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(descriptors).file:
            pool.AddSerializedFile(file.SerializeToString())
        return GetMessageClass(pool.FindMessageTypeByName(name))
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"there is no message {name} in its descriptors: {error}") from None


def place_of(descriptor: Any) -> list[int]:
    """Which message of its file it is: numbers from the outside to the inside."""
    outer = descriptor.containing_type
    if outer is None:
        return [list(descriptor.file.message_types_by_name.values()).index(descriptor)]
    return [*place_of(outer), list(outer.nested_types).index(descriptor)]


def written_place(place: list[int]) -> tuple[bytes, bytes]:
    """A place as it stands behind the id of a schema, and in the longer way to write the first."""
    written = b"".join(map(_zigzag, [len(place), *place]))
    return b"\0" if place == [0] else written, written


def _zigzag(number: int) -> bytes:
    number, made = number << 1, bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def _files(file: Any) -> Iterator[Any]:
    """A file after those that it imports, which may come more than once."""
    for other in file.dependencies:
        yield from _files(other)
    yield file


def _read(name: str, path: str | Path | None) -> bytes:
    if path is None:
        raise ConfigError(f"where is {name}? descriptors= is the path of a file that protoc writes")
    try:
        found = Path(path).read_bytes()
        FileDescriptorSet.FromString(found)
    except (OSError, ValueError, DecodeError) as error:
        raise ConfigError(f"the descriptors in {path} cannot be read: {error}") from None
    return found
