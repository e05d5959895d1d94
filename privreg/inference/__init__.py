"""From sums of reports to covariances, intervals and tests. Reports and public numbers only.

`methods` lists the ways and what each assumes; `pivots` and `wald` have the reference distributions.
"""

from privreg.inference.methods import METHODS, Estimate, Method, describe, resolve_methods
from privreg.inference.pivots import Normal, Pivot, RandomScaling, StudentT
from privreg.inference.resampling import Anytime, Bootstrap

__all__ = [
    "METHODS",
    "Anytime",
    "Bootstrap",
    "Estimate",
    "Method",
    "Normal",
    "Pivot",
    "RandomScaling",
    "StudentT",
    "describe",
    "resolve_methods",
]
