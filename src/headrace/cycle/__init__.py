"""The loop: observe, plan, run, commit, report.

The only place where the steps and the errors meet. `driver.py` is the loop itself; each step has
its file: `observe.py`, `commit.py` with `apply.py`, `report.py`. What is remembered between turns
is the board (`board/`). Everything that talks to the outside comes in through `headrace.ports`.
"""
