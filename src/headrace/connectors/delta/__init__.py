"""A Delta table in a folder that driver and executors share."""
