"""The estimate of a fit by rounds: coefficients, and each round's part in them, from all reports so far.

`estimate` computes the coefficients: `coordinates` are those of scores, `reference` is the reference model, with the
pilot's fit; `curvature` is learned, and `combination` brings rounds to common coordinates and averages their estimates.
"""
