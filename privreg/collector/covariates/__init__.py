"""Moments of covariates, learned from reports before anybody sends a score: locations, scales, correlations.

`indicators` are shares of records, by which columns are located, and those that bounds clamp; `moments` learns scales
and correlations, `whitening` the shares of levels, and makes maps, and points that stand for people.
"""
