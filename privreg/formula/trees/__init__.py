"""Expression trees: the computation of each column of a design from one record, in a closed language.

`compile` writes terms as trees of `operations`; `evaluate` computes them over batches of records, `splines` the columns
of splines.
"""
