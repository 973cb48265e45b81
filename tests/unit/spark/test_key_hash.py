"""Which bucket a key is in: for ever the same, and nothing to do with partitions."""

import tracemalloc
from collections import Counter
from zlib import crc32

import pyarrow as pa

from headrace.spark.key_hash import bucket_of_key, buckets_of


def test_it_never_changes():
    found = [bucket_of_key(key, 64) for key in (b"", b"acme", b"a" * 1000, "ü".encode())]
    assert found == [52, 1, 24, 55]


def test_records_without_a_key_are_together():
    keys = pa.chunked_array([pa.array([None, b"", b"a", None], pa.binary())])
    assert buckets_of(keys, 16).tolist() == [4, 4, bucket_of_key(b"a", 16), 4]


def test_keys_of_one_partition_are_spread_over_all_buckets():
    keys = [b"user-%d" % number for number in range(64_000)]
    partition = [key for key in keys if crc32(key) % 16 == 3]
    counts = Counter(bucket_of_key(key, 16) for key in partition)
    assert len(counts) == 16
    assert max(counts.values()) < 1.3 * len(partition) / 16


def test_large_keys_are_hashed_without_a_copy_of_all():
    large = [b"%d" % number * 4_000_000 for number in range(1, 7)]
    keys = pa.chunked_array([pa.array([*large[:3], None]), pa.array([b"a", *large[3:], b"a"])])
    due = [bucket_of_key(key, 16) for key in keys.to_pylist()]
    tracemalloc.start()
    try:
        assert buckets_of(keys, 16).tolist() == due
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 10_000_000, "all are held as Python's bytes"
