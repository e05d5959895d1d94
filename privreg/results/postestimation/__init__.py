"""Questions to estimates: tests, effects, predictions. Reports only.

Where a covariance is `known`, `hypothesis` tests linear restrictions, `terms` whole terms; `levels` compares a
factor's. `prediction` is at new rows, `hazards` of survival curves. `selection` says which
terms are needed, and `smooth` penalises a spline.
"""
