"""Which bucket a record is in.

By a hash of its key's bytes that has nothing in common with those by which clients choose
partitions: by one that had, all keys of a partition would be in one bucket. It never changes: a
record that was in another bucket than before would be handled twice, or not at all. Records without
a key are in the bucket of the empty one, and so keep their order.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_BYTES = 8
#: of keys that are hashed in one go, as Python's bytes
_TAKEN_OUT_BYTES = 4 * 1024 * 1024
#: of a key that is known when it comes again
_REMEMBERED_BYTES = 4096


def bucket_of_key(key: bytes | None, buckets: int) -> int:
    """The bucket of a key, where there are so many.

    >>> [bucket_of_key(key, 16) for key in (b"", None, b"acme", b"acme ")]
    [4, 4, 1, 3]
    """
    digest = blake2b(key or b"", digest_size=_BYTES).digest()
    return int.from_bytes(digest, "big") % buckets


def buckets_of(keys: pa.ChunkedArray[pa.BinaryScalar], buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each key; one that comes again is not hashed again, unless it is large."""
    found: dict[bytes | None, int] = {}
    numbers = np.empty(len(keys), np.int64)
    # Of large keys few are taken out of the table at once: they may be most of what a worker holds.
    at_once = max(1, len(keys) * _TAKEN_OUT_BYTES // max(1, keys.nbytes))
    for first in range(0, len(keys), at_once):
        for row, key in enumerate(keys.slice(first, at_once).to_pylist(), first):
            number = found.get(key)
            if number is None:
                number = bucket_of_key(key, buckets)
                if key is None or len(key) <= _REMEMBERED_BYTES:
                    found[key] = number
            numbers[row] = number
    return numbers
