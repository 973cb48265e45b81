"""Object stores that `connections` names, for all sinks that write to them."""
