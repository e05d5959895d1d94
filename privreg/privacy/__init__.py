"""The guarantee as numbers: budgets, conversions, mechanisms with their sensitivities, the ledger of releases.

Sensitivities are computed in `mechanisms` and nowhere else. `scalar` has the mechanisms for one number of known range.
"""
