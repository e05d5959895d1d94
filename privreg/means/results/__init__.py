"""Estimated means and frequencies as they are handed out: `results`, two-way tables by `crosstab`,
the `words` of notes, and `plots`.
"""
