"""All talk to Spark: the session, a wave as one job, and what runs inside its tasks.

`task.py` and what it imports run in the Python workers and know nothing of Spark, so that the same
code runs in the in-process fake. The other modules run on the driver.
"""
