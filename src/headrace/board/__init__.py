"""What a driver remembers between two turns: its streams, their lanes, what is in flight.

Everything here can be lost: positions, intents and states are in the store, ends are in Kafka, and
costs are learned again. That is what lets any driver be killed at any moment.

``lanes`` and ``streams`` are what is held, ``flights`` what runs, ``whole`` the board itself. The
loop (`cycle/`) changes it, and what observes (`telemetry/`) reads it.
"""

from headrace.board.flights import Flight
from headrace.board.lanes import Lane
from headrace.board.streams import NO_LIMIT, Allowance, HeldStream
from headrace.board.whole import Board, LaneHolder

__all__ = ["NO_LIMIT", "Allowance", "Board", "Flight", "HeldStream", "Lane", "LaneHolder"]
