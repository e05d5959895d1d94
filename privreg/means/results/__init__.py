"""Estimates as they are handed out: `results`, their tables `crosstab` and `table_one`, and the `words` of notes."""
