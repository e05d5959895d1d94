"""Front doors: `regression` describes, plans and fits a model, `loading` reads saved results.

On *public* rows, whose people must have agreed, as nothing is randomised there: `predictions` compare a fit's
predictions with a test set, `estimand` computes the coefficients that its intervals cover.
"""
