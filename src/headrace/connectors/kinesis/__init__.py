"""Kinesis as a log: streams are topics, shards are lanes that split and merge."""
