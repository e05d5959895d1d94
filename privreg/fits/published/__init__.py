"""A fit by the single chain: `tuning` chooses its numbers, `report` begins it and makes its outcome.

`intervals` computes its covariances and pivots, method by method.
"""
