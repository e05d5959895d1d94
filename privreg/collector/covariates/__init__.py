"""What reports tell of covariates before anybody sends a score: where columns lie, and how they go together.

`thresholds` and `moments` learn locations, scales and correlations; `asking` has how moments are asked for, `factors`
the shares of levels, `rarity` which of them are too small. `whitening` is the map that is made of all that, `points`
what to expect of rows that it makes white, and `extremes` how long one can be.
"""
