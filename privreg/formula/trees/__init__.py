"""Expression trees: what each column of a design computes of one record, in a closed language.

`compile` writes terms as trees of `operations`; `evaluate` computes them over batches of records, and `lookup` the
columns that depend on levels alone.
"""
