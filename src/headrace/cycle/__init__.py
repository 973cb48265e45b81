"""The loop: observe, plan, run, commit.

The only place where the steps and the errors meet. `driver.py` is the loop itself; each step has
its file, such as `observe.py`, and `commit.py` with `apply.py`. What is remembered between turns is
the board (`board/`), and what is counted meanwhile, for people, is in `telemetry/`. Everything that
talks to the outside comes in through `headrace.ports`.
"""
