"""Benchmarks: ratios measured side by side in one run, every contender's output verified.

`python -m benchmarks --help`. Each benchmark writes its raw numbers to `benchmarks/results/` and
prints a summary; `RESULTS.md` holds the last published ones. Times on a small shared machine say
little, so what is published is the ratio of two contenders that took turns in the same run.
"""
