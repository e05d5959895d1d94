"""Benchmarks of studies in the field: each module is one command, run in the root folder of a clone."""
