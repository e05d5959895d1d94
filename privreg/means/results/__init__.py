"""Estimates as they are handed out: `results`, which know a `fit`, what follows from them (`described`, `histogram`),
the tables `crosstab` and `table_one`, and the `words` of notes.
"""
