"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device. A fit by rounds: `plan` has its values, `rounds` publishes
states, by the `pilot` first, `reach` has how far states may move and `offsets` how far the groups of a round differ;
`clamping` has what records report of bounds, `levels` what counts as shown or believed. `covariates` is what rounds
before the scores learn, `estimation` makes coefficients of all, `aggregate` is the estimator of two collectors.
"""
