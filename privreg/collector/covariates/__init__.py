"""Moments of covariates, learned from reports before anybody sends a score: locations, scales, correlations.

`moments` learns locations, by shares of records above thresholds, which of them bounds clamp, scales and correlations,
`whitening` the shares of levels, and makes maps, and points that stand for people.
"""
