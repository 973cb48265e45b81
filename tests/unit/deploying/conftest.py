"""What a driver collects is what came since it began, as its own heap is frozen by then."""

from frozen import frozen

__all__ = ["frozen"]
