"""A driver on twins (`driver_world.py`)."""

from driver_world import world

__all__ = ["world"]
