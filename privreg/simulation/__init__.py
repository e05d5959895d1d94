"""Rows through all devices at once, and the fits made of it.

`settings` is what is asked, `tuning` turns it into the numbers of one fit. `stream` takes rows, `checkpoint` keeps
long fits, `partitions` and `dask` spread them. `sgd` is the published chain and `chain_intervals` its precision,
`staged` the efficient engine. `assemble` makes results of a fit in progress, `notes` says why rows are marked, and
`statements` what was spent.
"""
