"""Inside a record, whoever reads it: what its JSON says, and when its activity happened.

Bytes become rows in `connectors/kafka/`, and events are judged in `gateway/`; here is only what the
gateway, a registry, a use case and the executors have to understand alike.
"""
