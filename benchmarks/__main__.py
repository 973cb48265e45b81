"""`python -m benchmarks [name ...] [--quick]`: run some of the benchmarks, or all that are quick.

What begins with two dashes is handed to the benchmarks: `--quick` is a short run whose figures mean
nothing, to see that it works; `noisy_neighbour --buckets` divides lanes by keys, and `order_key
--executors` runs on executors of a cluster.
"""

from __future__ import annotations

import importlib
import sys

#: name -> what it measures; those marked slow run only when named
BENCHMARKS = {
    "planner": "one turn of the planner over 10,000 lanes",
    "reader": "the slice reader against the bare Kafka client",
    "lane_location": "a small slice on the executor that has its lane, on another, by a new client",
    "formats": "JSON, Avro and Protobuf to columns against a parser for each record",
    "gateway": "events acknowledged over HTTP against a bare producer, and singles at 2,000/s",
    "statistics": "what it costs a driver with 1,000 tenants to tell how it fares",
    "commit": "positions committed in PostgreSQL against raw transactions of the same rows",
    "many_lanes": "a round over many small topics against Spark's Kafka source",
    "kinesis": "delay over 200 shards of Kinesis, and a backlog against a loop of boto3 (slow)",
    "drain": "a backlog of a million records against Spark's Kafka source and the bare client",
    "decoded_drain": "the same, decoded, against from_json and from_avro (slow)",
    "kafka_transactions": "exactly-once from Kafka to Kafka against at-least-once",
    "splitter": "a shared topic divided by tenant: one customer's storm, and what it costs (slow)",
    "delta": "rows into a Delta table through the sink against the client library alone",
    "object_store": "files into an S3 server through the sink against its client library alone",
    "sql_elsewhere": "rows into PostgreSQL and MariaDB through the sink against their clients",
    "cassandra": "rows into Cassandra through the sink against the client library alone",
    "hbase": "rows into HBase through the sink against the client library's own batches",
    "valkey": "entries into Valkey through the sink against the client library alone",
    "dynamodb": "items into DynamoDB through the sink against the client library alone",
    "search": "documents into OpenSearch through the sink against the client library alone",
    "solr": "documents into Solr through the sink against plain requests of documents",
    "cassandra_history": "60 days of ten million rows in Cassandra, read back by tenant (slow)",
    "control": "a list of a thousand tenants from the control API",
    "registry": "schemas registered and looked up at 100/s, and 10,000 subjects listed",
    "console": "first paint of the console, and what a thousand changed rows cost it",
    "steady": "delay at 500 records/s over 1,000 topics against Structured Streaming (slow)",
    "decoded_steady": "delay and CPU of the same with Avro against bytes (slow)",
    "idle": "what 10,000 idle lanes cost, and how soon their first record is done (slow)",
    "noisy_neighbour": "quiet tenants beside a whale, against Structured Streaming (slow)",
    "bad_tenants": "healthy tenants beside slow, raising, poisoned and hanging ones (slow)",
    "fixed_cost": "a handler that takes 2 s for each call, against the best slice size (slow)",
    "async_handlers": "a handler that waits 20 ms for each record: async def against a loop (slow)",
    "order_key": "one partition and 20 ms a record: order by key, and none, against lane (slow)",
    "load_step": "eight times the load for a minute, against Structured Streaming (slow)",
    "throttled": "a backlog into a search cluster that takes less than it is given (slow)",
    "elastic": "executors that follow a day's load, against a fixed fleet (slow)",
    "guarantees": "what exactly-once costs against at-least-once and at-most-once (slow)",
    "recovery": "from a kill to the first commit with a million records waiting (slow)",
    "rerun": "fresh records beside half a million that are read once more (slow)",
    "memory": "memory of driver and workers over ten minutes (slow)",
}


def main(names: list[str]) -> int:
    """Run the benchmarks named, or all."""
    if any(name in ("-h", "--help") for name in names):
        print("python -m benchmarks [name ...] [--quick]   no name: all that are not slow\n")
        for name, what in BENCHMARKS.items():
            print(f"  {name:<18} {what}")
        return 0
    options = [name for name in names if name.startswith("--")]
    named = [name for name in names if name not in options]
    chosen = named or [name for name, what in BENCHMARKS.items() if "(slow)" not in what]
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    for name in chosen:
        print(f"== {name}: {BENCHMARKS[name]}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
