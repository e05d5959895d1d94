"""A curator's noisy stochastic gradient descent, as printed: ``tuning="published"`` with ``trust="central"``.

`run` takes a model and its rows to results. `losses` and `sensitivity` make the noise, `plan` all public numbers;
`descent` sees rows; `arrival` says which coefficients are not there yet. `results` are what a statistician is handed,
`verification` is its audit.

References
----------
Wang, Lei, Ying & Zhang, Differentially private SGD with non-smooth losses, arXiv 2101.08925.
"""

from privreg.published.descent.run import fit

__all__ = ["fit"]
