"""From sums of reports to covariances, intervals and tests. Reports and public numbers only.

`methods` lists the ways and what each assumes. `sandwich`, `batches` and `blocks` make covariances; `pivots`,
`resampling`, `wald` and `simultaneous` have the reference distributions of one, of several and of all t-ratios.
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
