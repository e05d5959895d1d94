"""Estimated means and frequencies as they are handed out: `results`, their `summary`, and the `words` of its notes."""
