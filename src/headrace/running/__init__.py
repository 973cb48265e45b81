"""A driver that runs in this process: put together from settings, and watched on the terminal.

``assembly`` chooses the real parts and lets the driver turn; ``live`` is the table of its streams.
The commands are in `cli/`, and what a turn does is in `cycle/`.
"""
