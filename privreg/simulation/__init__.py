"""Rows through all devices at once, and the fits made of it.

`settings` is what is asked, `tuning` turns it into the numbers of one fit. `stream` takes rows, `checkpoint` keeps
long fits, `partitions`, `blocks` and `dask` spread them. A fit by `rounds`: `plan` is what it knows before the first
record, `play` its devices, `findings` and `outcome` what it has to say. `sgd` is the published chain and
`chain_intervals` its precision, `staged` the efficient engine, of which `assemble` makes results. `notes` says why
rows are marked, and `statements` what was spent.
"""
