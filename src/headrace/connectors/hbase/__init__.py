"""Tables in HBase: the sink, its cells, and what the answers of a Thrift server mean."""
