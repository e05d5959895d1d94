"""Results of a fit, and views of them. Reports only.

`results` has the public class: `base` is what all results share, `data` their content, `saving` how they are kept,
`adapters` what other libraries read of them. `summary` is its table, `statement` the privacy statement, `windows`
estimates of windows of a stream. `postestimation` answers questions to estimates afterwards, `several` puts the results
of several fits together; `plots` has the figures.
"""

from privreg.results.results import PrivateResults

__all__ = ["PrivateResults"]
