"""Covariances, intervals and tests from sums of reports. Reports and public numbers only.

`methods` lists the methods with their assumptions, and has the groups of clusters. `sandwich` (of the published chain;
that of the default is in `collector/estimation`) and `resampling` make covariances; `pivots`, `wald` and `simultaneous`
have the reference distributions of one, of several and of all t-ratios.
`windows` has estimates of windows of a stream, and the test that nothing changes.
"""

from privreg.collector.inference.methods import describe

__all__ = ["describe"]
