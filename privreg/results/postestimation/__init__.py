"""Questions to estimates: tests, effects, predictions. Reports only.

Of a known covariance `hypothesis` tests linear restrictions, `terms` whole terms and a factor's levels.
`prediction` is at new rows, of survival curves, too. `penalties` choose terms, and smooth a spline.
"""
