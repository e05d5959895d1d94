"""Regression by a trusted curator: stochastic gradient descent with output or gradient perturbation.

Whoever runs this sees every row; what is released is differentially private. For people who trust nobody with their
rows there is `privreg.PrivateOnlineRegression`.

`regression` is the front door, `plan` what is done. `losses`, `sensitivity` and `calibration` make the noise;
`curvature` says which coefficients the records determine, by a noisy matrix that is released on the way; `descent` sees
rows, by `kernels`, in random order. `results`, with their statement, and `verification` are the core's, filled.

References
----------
Wang, Lei, Ying & Zhang, Differentially private SGD with non-smooth losses, arXiv 2101.08925.
"""

from privreg.central.regression import Regression
from privreg.options.elsewhere import public_names
from privreg.published.descent.verification import audit
from privreg.published.descent.losses import Absolute, QHinge, QNorm
from privreg.published.descent.results import CentralResults

__all__ = ["Absolute", "CentralResults", "QHinge", "QNorm", "Regression", "audit"]

__dir__, __getattr__ = public_names(__name__, __all__)
