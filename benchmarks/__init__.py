"""Benchmarks and studies: each module is one command and says in its docstring what it does."""
