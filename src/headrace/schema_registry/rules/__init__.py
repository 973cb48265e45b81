"""What is pure of a registry: what a schema is, when two are the same, when they go together."""
