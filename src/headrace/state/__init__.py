"""State of keys, as a use case declares it and a handler sees it: Arrow tables of typed rows."""
