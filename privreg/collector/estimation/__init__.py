"""The estimate of a fit by rounds: coefficients and what each round says of them, from all reports so far.

`estimate` makes the coefficients: `coordinates` are those of scores, and `reference` is the model of what to expect of
them; rounds are brought to common coordinates by `carrying`, `curvature` is learned, and by it a `combination` made.
"""
