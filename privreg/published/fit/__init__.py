"""A fit by the single chain: `tuning` chooses its numbers, `report` begins it and says what came of it.

`intervals` makes covariances and pivots of it, method by method.
"""
