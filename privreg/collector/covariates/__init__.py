"""Moments of covariates, learned from reports before anybody sends a score: locations, scales, correlations.

`thresholds` and `moments` estimate them; `asking` chooses how moments are asked for, `factors` estimates the shares of
levels, `rarity` finds those that are too small. `whitening` makes the map of all that, `points` stand for whitened
rows, and `extremes` bounds their length.
"""
