"""Rows through all devices at once.

`playable` is a model's side of it: plan, start and fit. `tuning` turns what is asked into the numbers of one fit.
`streaming` takes rows and keeps what is made of them. Of fits by `rounds`, `devices` is what a round's do with a block
of rows and `play` their arithmetic. `simulate` plays a plan with reports that are lost or late. `workers` share one fit
among threads, processes and machines. `aggregate` plays two collectors, whose reports `summing` adds up, `curator` a
curator, whose rows answer in each round; all are `keyed`. What a fit says of itself is in `fits`, the published
algorithms in `published`.
"""
