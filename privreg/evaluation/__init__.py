"""Evaluation of a fit on *public* rows: nothing is randomised, and the people whose rows they are must have agreed.

`predictions` compare its predictions with a test set, `estimand` computes the coefficients that its intervals cover.
"""
