"""Collector side of the wall: reports in, sums and estimates out.

Nothing here imports a row reader, a formula or a device. `thresholds` and `moments` learn where columns lie and how
they go together, `leads` has how moments are asked for, `factors` the shares of levels, `rarity` which of them are
too small, `diagonal` does without correlations; `whitening` is the map that is made of them, `reference` and `law`
have what to expect of scores. A fit by rounds: `plan` has its values, `rounds` publishes states, by the `pilot`
first, `offsets` has how far apart groups answer, `coordinates` are those of scores; `estimate` carries every round's
reports to the coefficients, by their `curvature`, or `many` of many. `clamping` has what was told of bounds. `field`
makes messages of states, and sums of reports of whole numbers; `chain` makes a study's states of what came.
`sgd`, `steps` and `history` are the published chain.
"""
