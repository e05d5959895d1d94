"""What a statistician is handed. Reports only.

`results` has the public class, `base` what results share, `data` what they know, `saving` how they are kept. `summary`
and `views` are its tables, `statement` and `wording` the privacy statement, `comparison` several results side by side,
`equation` what the estimates solve. `testing` is what may be asked where a covariance is known: `hypothesis`, `terms`,
`levels` and `effects` answer, and `prediction` at new rows; `plots` has its figures.
"""

from privreg.results.results import PrivateResults

__all__ = ["PrivateResults"]
