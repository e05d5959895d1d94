"""Covariances, intervals and tests from sums of reports. Reports and public numbers only.

`methods` lists the methods with their assumptions, and has estimates along a stream and groups of clusters.
`resampling` makes covariances of the published chain's path (those of the default are in `collector/estimation`);
`pivots` has the reference distributions of one or several t-ratios, `resampling` of all of them together.
"""

from privreg.collector.inference.methods import describe

__all__ = ["describe"]
