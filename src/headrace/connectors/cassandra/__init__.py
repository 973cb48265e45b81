"""Tables in Cassandra: the sink, its statements, what a cluster's errors mean, and history."""
