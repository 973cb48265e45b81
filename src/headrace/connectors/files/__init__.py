"""Files in a folder that driver and executors share."""
