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


def bucket_of_key(key: bytes | None, buckets: int) -> int:
    """The bucket of a key, where there are so many.

    >>> [bucket_of_key(key, 16) for key in (b"", None, b"acme", b"acme ")]
    [4, 4, 1, 3]
    """
    digest = blake2b(key or b"", digest_size=_BYTES).digest()
    return int.from_bytes(digest, "big") % buckets


def buckets_of(keys: pa.ChunkedArray[pa.BinaryScalar], buckets: int) -> npt.NDArray[np.int64]:
    """The bucket of each key; one that comes again is not hashed again."""
    found: dict[bytes | None, int] = {}
    numbers = np.empty(len(keys), np.int64)
    for row, key in enumerate(keys.to_pylist()):
        number = found.get(key)
        if number is None:
            number = found[key] = bucket_of_key(key, buckets)
        numbers[row] = number
    return numbers
