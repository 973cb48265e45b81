"""A driver on in-memory fakes (`driver_world.py`)."""

from driver_world import world

__all__ = ["world"]
