"""Means and frequencies under differential privacy: estimates, the benchmark of mechanisms, shrinking.

`model` is the front door, `spec`, `terms` and `plan` what is asked of whom, `device` and `factors` what is sent, `sums`
how sums are noised, `collector` and `stream` what becomes of it. `results` shows it, `comparison` is the benchmark,
`verification` audits.

Examples
--------
>>> import privreg as pr
>>> people = pr.datasets.us_insurance(20_000)
>>> res = pr.means.estimate(people, "age + C(smoker) ~ 1", epsilon=1, bounds={"age": (18, 65)},
...                         levels={"smoker": ["no", "yes"]}, progress=False)
>>> res.tidy().columns.tolist()
['term', 'estimate', 'std_error', 'conf_low', 'conf_high', 'reliable']
"""

from privreg.means.comparison.shrinkage import hdr4me, james_stein, shrink, soft_threshold, sure_threshold
from privreg.means.comparison.theory import benchmark, break_even, corrections, moments, plot_benchmark
from privreg.means.model import PrivateMeans, estimate, table_one
from privreg.means.results.results import MeansResults
from privreg.means.stream import MeansStream
from privreg.options.elsewhere import public_names

__all__ = [
    "MeansResults", "MeansStream", "PrivateMeans", "benchmark", "break_even", "corrections", "estimate", "hdr4me",
    "james_stein", "moments", "plot_benchmark", "shrink", "soft_threshold", "sure_threshold", "table_one",
]  # fmt: skip

__dir__, __getattr__ = public_names(__name__, __all__)
