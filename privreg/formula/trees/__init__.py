"""Expression trees: the computation of each column of a design from one record, in a closed language.

`compile` writes terms as trees; `evaluate` has their operations, and computes them over batches of records.
"""
