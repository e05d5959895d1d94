"""Estimated means and frequencies as they are handed out: `results`, and the `words` of their notes."""
