"""Rows through all devices at once, and the fits made of it.

`settings` is what is asked, `tuning` turns it into the numbers of one fit. `stream` takes rows, which `encoding`
makes of records, `checkpoint` keeps long fits; a `crew` is the threads that encode and play; `dask` spreads fits over
workers, `blocks` is what is spread and `work` what workers are told. A fit by `rounds`: `plan` is what it knows
before the first record, `devices` what a round's do with a block of rows and `play` its arithmetic, `findings` and
`outcome` what it has to say. `fit_plan` is the public plan of a fit, which `simulate` plays with reports that are
lost or late. `sgd` is the published chain, `sgd_kernels` its compiled loop, `sgd_device` one of its devices,
`chain_intervals` its precision, and `published` makes results of it. `notes` says why rows are marked, and
`statements` what was spent.
"""
