"""Benchmarks: `make bench` runs them all; `python -m bench NAME ...` the named ones."""
