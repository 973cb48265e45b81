"""All use cases of the demo: where Cassandra and `--replicate` are asked for."""

from headrace.demo.in_cassandra import keep_in_cassandra, keep_in_delta, react, replicate, score
from headrace.demo.replicated import index_visits, keep_last_visits

__all__ = [
    "index_visits",
    "keep_in_cassandra",
    "keep_in_delta",
    "keep_last_visits",
    "react",
    "replicate",
    "score",
]
