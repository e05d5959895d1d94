"""Moments of covariates, learned from reports before anybody sends a score: locations, scales, correlations.

`thresholds` and `moments` estimate them, `factors` the shares of levels; `rarity` finds those that are too small.
`whitening` makes the map of all that, and `points` stand for whitened rows.
"""
