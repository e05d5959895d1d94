"""Rows through all devices at once, and the fits made of it.

`tuning` turns what is asked into the numbers of one fit. `streaming` takes rows and keeps what is made of them. A fit
by `rounds`: `plan` is what it knows before the first record, `devices` what a round's do with a block of rows, and
`play` its arithmetic. `fit_plan` is the public plan of a fit, which `simulate` plays with reports that are lost or
late. `workers` share one fit among threads, processes and machines, and `reporting` is what a fit has to say beside its
coefficients. `aggregate` plays two collectors. The published algorithm's single chain is in `published`.
"""
