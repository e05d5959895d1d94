"""A curator's noisy stochastic gradient descent, as printed: ``tuning="published"`` with ``trust="central"``.

`fit` takes a model and its rows to results. `losses`, `sensitivity` and `calibration` make the noise, `plan` the public
numbers; `descent` sees rows; `curvature` says which coefficients the records determine. `verification` is its audit.

References
----------
Wang, Lei, Ying & Zhang, Differentially private SGD with non-smooth losses, arXiv 2101.08925.
"""

from privreg.published.descent.run import fit

__all__ = ["fit"]
