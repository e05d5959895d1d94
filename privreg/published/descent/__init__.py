"""A curator's noisy stochastic gradient descent, as printed: ``tuning="published"`` with ``trust="central"``.

`descent` takes a model and its rows to `results`, which name coefficients that have not converged. `losses`
and `theory` make the noise, `plan` all public numbers; `kernels` are compiled. Its audit is `audit.descent`.

See Wang, Lei, Ying & Zhang, Differentially private SGD with non-smooth losses, arXiv 2101.08925.
"""

from privreg.published.descent.descent import fit

__all__ = ["fit"]
