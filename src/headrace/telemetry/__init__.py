"""What is told of a driver and its streams, for people: nothing here decides what runs.

While the loop works, ``report`` counts for it (``meters``, ``use_case_meters``, ``timeline``);
every other second ``figures`` describes the streams of the board, and ``publishing`` writes that
down. Who reads it in the store gets one picture of it (``newest_reports``, ``conditions``,
``history``) and hears when something is wrong (``alerts``). How values are spread and how late a
lane is are ``sketches`` and ``lateness``. Traces are ``tracing`` and ``spans``; the fields of log
lines, ``log_fields``; what the planner sees and makes, as JSON, ``snapshot_json``.

A rule about what is *done* is a policy (`policies/`); one about what is *told* is here. What only
one door shows is with the door: the text of metrics, for one, is `console/metrics.py`.
"""
