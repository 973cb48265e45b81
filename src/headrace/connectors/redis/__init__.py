"""Hashes in Redis or Valkey: the sink, its script, and what a server's errors mean."""
