"""Questions to estimates: tests, effects, predictions. Reports only.

Where a covariance is `known`, `hypothesis` tests linear restrictions, `terms` whole terms and a factor's levels.
`prediction` is at new rows, `hazards` of survival curves. `penalties` choose terms, and smooth a spline.
"""
