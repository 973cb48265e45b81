"""Which bucket a key is in: for ever the same, and nothing to do with partitions."""

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
