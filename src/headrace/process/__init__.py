"""What any long-running process of ours settles with Python and with who stops it.

The ``clock``, ``signals`` that ask it to end, a ``standard_error`` that nobody may read, ``memory``
that stays, a ``watchdog`` that ends one which hangs, and ``crash_points``, where a test stops it.
"""
