"""A schema registry that Confluent's clients take for their own, on the store's database."""
