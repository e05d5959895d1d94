"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device. A fit by rounds: `plan` has its values, `rounds` publishes
states, by the `pilot` first, `reach` has how far states may move and `offsets` how far the groups of a round differ;
`coordinates` are those of scores, and `reference` is the model of what to expect of them. `estimate` makes the
coefficients: rounds are brought to common coordinates by `carrying`, `curvature` is learned, and by it a `combination`
made. `wide` is the same for more coefficients, with the curvature of `many`. `clamping` has what records report of
bounds, `levels` what counts as shown or believed. `field` makes messages of states, and sums of reports of whole
numbers; `chain` makes a study's states of what came, which of a `table` are one. `covariates` is what rounds before the
scores learn, `aggregate` the estimator of two collectors.
"""
