"""Front doors: `regression` describes, plans and fits a model, `loading` reads saved results.

On *public* rows, whose people must have agreed, as nothing is randomised there, `estimand` computes the coefficients
that a fit's intervals cover, and compares its predictions with a test set.
"""
