"""Records that the Kinesis Producer Library put many into one.

Such a record begins with four bytes of its own, then comes a message of Protobuf with keys and
records, and a checksum. Each of its records has a key, which need not be the one that the whole was
sent by. After a shard is split, whoever sends by an older list of shards puts records into one
whole that belong to two shards; the library sends these once more, each where it belongs, so who
reads leaves out a whole of which any record is in the wrong shard, as Amazon's own consumer does.

A whole whose checksum does not fit, or that cannot be read, is a bad record.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any, Final, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from headrace.connectors.kinesis.shards import HashRange

MAGIC: Final = b"\xf3\x89\x9a\xc2"
_CHECKSUM: Final = 16
_STRING: Final = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_BYTES: Final = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
_UINT64: Final = descriptor_pb2.FieldDescriptorProto.TYPE_UINT64
_MESSAGE: Final = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
_OPTIONAL: Final = descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
_REQUIRED: Final = descriptor_pb2.FieldDescriptorProto.LABEL_REQUIRED
_REPEATED: Final = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED


class Part(NamedTuple):
    """One of the records in a whole."""

    key: str
    data: bytes
    #: by which its shard is chosen, if that is not the hash of its key
    hash_key: int | None = None


class Broken(ValueError):
    """A whole that cannot be taken apart."""


def is_aggregated(data: bytes) -> bool:
    """Whether it says that many records are in it."""
    return data.startswith(MAGIC)


def taken_apart(data: bytes) -> tuple[Part, ...]:
    """The records of a whole, in order.

    Raises:
        Broken: its checksum does not fit, or it is no such message; says which.
    """
    body, checksum = data[len(MAGIC) : -_CHECKSUM], data[-_CHECKSUM:]
    if len(data) < len(MAGIC) + _CHECKSUM:
        raise Broken("it is cut short")
    if hashlib.md5(body).digest() != checksum:  # noqa: S324 - the form's own checksum
        raise Broken("its checksum does not fit")
    whole = _whole()()
    try:
        whole.ParseFromString(body)
        parts = tuple(_part(whole, record) for record in whole.records)
    except DecodeError as error:
        raise Broken("it is no message of the Kinesis Producer Library") from error
    except (IndexError, ValueError) as error:
        raise Broken("a record of it has a key that it does not have") from error
    if not whole.IsInitialized():
        raise Broken("it is no message of the Kinesis Producer Library: a field is missing")
    return parts


def put_together(parts: tuple[Part, ...]) -> bytes:
    """The whole that has these records."""
    whole = _whole()()
    for part in parts:
        record = whole.records.add(partition_key_index=len(whole.partition_key_table))
        record.data = part.data
        whole.partition_key_table.append(part.key)
        if part.hash_key is not None:
            record.explicit_hash_key_index = len(whole.explicit_hash_key_table)
            whole.explicit_hash_key_table.append(str(part.hash_key))
    body: bytes = whole.SerializeToString()
    return MAGIC + body + hashlib.md5(body).digest()  # noqa: S324 - the form's own checksum


def hash_key_of(key: str) -> int:
    """By which the shard of a record with this key is chosen."""
    return int(hashlib.md5(key.encode()).hexdigest(), 16)  # noqa: S324 - the service's own hash


def are_at_home(parts: tuple[Part, ...], keys: HashRange) -> bool:
    """Whether all records of a whole belong to the shard that has these keys."""
    return all(
        (hash_key_of(part.key) if part.hash_key is None else part.hash_key) in keys
        for part in parts
    )


def _part(whole: Any, record: Any) -> Part:
    key = whole.partition_key_table[record.partition_key_index]
    if not record.HasField("explicit_hash_key_index"):
        return Part(key, record.data)
    return Part(
        key, record.data, int(whole.explicit_hash_key_table[record.explicit_hash_key_index])
    )


@cache
def _whole() -> Any:
    """The message, as ``aggregation-format.md`` of the library has it."""
    file = descriptor_pb2.FileDescriptorProto(
        name="headrace/kinesis_aggregated.proto", package="headrace.kinesis", syntax="proto2"
    )
    _add(file, "Tag", [("key", 1, _STRING, _REQUIRED), ("value", 2, _STRING, _OPTIONAL)])
    _add(
        file,
        "Record",
        [
            ("partition_key_index", 1, _UINT64, _REQUIRED),
            ("explicit_hash_key_index", 2, _UINT64, _OPTIONAL),
            ("data", 3, _BYTES, _REQUIRED),
            ("tags", 4, "Tag", _REPEATED),
        ],
    )
    _add(
        file,
        "AggregatedRecord",
        [
            ("partition_key_table", 1, _STRING, _REPEATED),
            ("explicit_hash_key_table", 2, _STRING, _REPEATED),
            ("records", 3, "Record", _REPEATED),
        ],
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("headrace.kinesis.AggregatedRecord")
    return message_factory.GetMessageClass(found)


def _add(file: Any, name: str, fields: list[tuple[str, int, int | str, int]]) -> None:
    message = file.message_type.add(name=name)
    for field_name, number, kind, label in fields:
        field = message.field.add(name=field_name, number=number, label=label)
        if isinstance(kind, str):
            field.type, field.type_name = _MESSAGE, f".{file.package}.{kind}"
        else:
            field.type = kind
