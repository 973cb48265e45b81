"""Tables of DynamoDB: the sink, its items, and what the service's errors mean."""
