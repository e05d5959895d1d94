"""What *public* rows say of a fit: nothing is randomised, and whoever's rows they are must have agreed.

`predictions` are how well it predicts a test set, the `estimand` what its intervals are for.
"""
