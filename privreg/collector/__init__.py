"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device. A fit by rounds: `plan` has its values, `rounds` publishes
states, by the `pilot` first, `reach` has how far apart these may lie and `offsets` how far apart groups answer,
`coordinates` are those of scores, and `law` says what to expect of them. `estimate` carries every round's reports to
the coefficients: `curvature` is learned, and by it a `combination` made, or `many` of many. `clamping` has what was
told of bounds. `field` makes messages of states, and sums of reports of whole numbers; `chain` makes a study's states
of what came. `covariates` is what rounds before the scores learn, `aggregate` the estimator of two collectors.
"""
