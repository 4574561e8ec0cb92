"""How fast the service is, measured: one module for each benchmark, run by `make bench`.

A module named `bench_<what>` has a docstring that says what is measured and a function `run() -> bool` that prints a
table and answers whether the bars hold.
"""
