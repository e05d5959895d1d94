"""From sums of reports to covariances, intervals and tests. Reports and public numbers only.

`methods` lists the ways and what each assumes. `sandwich` (of the published chain; the default has its
own in `collector/estimation`), `batches` and `clusters` make covariances; `pivots`,
`resampling`, `wald` and `simultaneous` have the reference distributions of one, of several and of all t-ratios.
`windows` has estimates of windows of a stream, and the test that nothing changes.
"""

from privreg.inference.methods import describe

__all__ = ["describe"]
