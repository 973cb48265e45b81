"""Driver processes that are kept running.

A driver is a Python process with a JVM, and both may die, hang, or have to make room for a new
version. Somebody has to look after that, in the same way on a bare machine, under systemd and as
the first process of a container. That is the *supervisor*: it starts drivers under fixed names,
starts them again when they end, gives one up when that does not help, and replaces them one at a
time on request.

``decide.py`` decides, purely; ``supervise.py`` obeys. What belongs to whom is not decided here:
drivers share the streams by leases (`cycle/leases.py`), so nothing runs twice whatever a supervisor
does. Nor is it spread over machines: one supervisor a machine, and all may share a store.
"""
