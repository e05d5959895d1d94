"""Covariances, intervals and tests from sums of reports. Reports and public numbers only.

`methods` lists the methods with their assumptions, and has the groups of clusters. `resampling` makes covariances of
the published chain's path (those of the default are in `collector/estimation`); `pivots` and `simultaneous` have the
reference distributions of one or several and of all t-ratios.
`windows` has estimates of windows of a stream, and the test that nothing changes.
"""

from privreg.collector.inference.methods import describe

__all__ = ["describe"]
