"""A Kinesis in memory, and what it and any real one have to keep."""
