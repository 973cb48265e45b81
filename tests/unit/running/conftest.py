"""What is put together and ends has thawed all that there is, so each test freezes it anew."""

from frozen import frozen

__all__ = ["frozen"]
