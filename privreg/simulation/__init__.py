"""Rows through all devices at once, and the fits made of it: streams, checkpoints, parts of a cluster.

`tuning` turns what the user asks into the numbers of one fit, `sgd` is the published chain, `staged` the efficient
engine; `assemble` makes results of a fit in progress.
"""
