"""Estimated means and frequencies as they are handed out: `results`, the `words` of their notes, and their `plots`."""
