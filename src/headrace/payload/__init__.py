"""Inside a record, whoever reads it: a place in its JSON, and when its activity happened.

Bytes become rows in `connectors/kafka/`, and events are judged in `gateway/`; here is only what the
gateway, a use case and the executors have to understand alike.
"""
