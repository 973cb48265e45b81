"""A record as no client library sends it: its headers are written down by hand, in Kafka's format.

Sources: Kafka's protocol guide, Produce version 3, and record batches of magic 2.
"""

import socket
import struct

_TABLE = []
for _byte in range(256):
    _rest = _byte
    for _bit in range(8):
        _rest = (_rest >> 1) ^ (0x82F63B78 if _rest & 1 else 0)
    _TABLE.append(_rest)


def send(servers: str, topic: str, value: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    """Put a record into partition 0, and see that the broker has taken it."""
    record = _record(value, headers)
    body = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + _field(record)
    sealed = struct.pack(">iBI", -1, 2, _crc32c(body)) + body
    batch = struct.pack(">qi", 0, len(sealed)) + sealed
    name = topic.encode()
    asked = (
        struct.pack(">hhih3shhi", 0, 3, 7, 3, b"raw", -1, -1, 10_000)
        + struct.pack(f">ih{len(name)}s", 1, len(name), name)
        + struct.pack(">iii", 1, 0, len(batch))
        + batch
    )
    host, port = servers.split(",", maxsplit=1)[0].rsplit(":", 1)
    with socket.create_connection((host, int(port)), 10) as line:
        line.sendall(struct.pack(">i", len(asked)) + asked)
        with line.makefile("rb") as answers:
            (length,) = struct.unpack(">i", answers.read(4))
            answer = answers.read(length)
    (error,) = struct.unpack_from(">h", answer, 4 + 4 + 2 + len(name) + 4 + 4)
    assert error == 0, f"the broker says {error}"


def _record(value: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    told = b"".join(_field(name) + _field(said) for name, said in headers)
    return (
        b"\0" + _varint(0) + _varint(0) + _varint(-1) + _field(value) + _varint(len(headers)) + told
    )


def _field(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _varint(number: int) -> bytes:
    zigzag, found = (number << 1) ^ (number >> 63), b""
    zigzag &= (1 << 64) - 1
    while zigzag > 127:
        found += bytes([zigzag & 127 | 128])
        zigzag >>= 7
    return found + bytes([zigzag])


def _crc32c(data: bytes) -> int:
    rest = 0xFFFFFFFF
    for byte in data:
        rest = (rest >> 8) ^ _TABLE[(rest ^ byte) & 255]
    return rest ^ 0xFFFFFFFF
