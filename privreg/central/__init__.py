"""Regression by a trusted curator: stochastic gradient descent with output or gradient perturbation.

Whoever runs this sees every row; what is released is differentially private. For people who trust nobody with their
rows there is `privreg.PrivateOnlineRegression`.

References
----------
Wang, Lei, Ying & Zhang, Differentially private SGD with non-smooth losses, arXiv 2101.08925.
"""

from privreg.central.losses import Absolute, QHinge, QNorm
from privreg.central.regression import Regression
from privreg.central.results import CentralResults
from privreg.central.verification import audit

__all__ = ["Absolute", "CentralResults", "QHinge", "QNorm", "Regression", "audit"]
