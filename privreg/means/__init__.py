"""Means and frequencies under differential privacy: estimates, the benchmark of mechanisms, shrinking.

`model` is the front door, `terms` and `plan` what is asked of whom and how sums are noised, `device` what is sent, by
`mechanisms` whose errors it also has in closed form; `collector` and `stream` what becomes of it. `results` shows it,
and `verification` audits.
"""

from privreg.means.mechanisms import benchmark, break_even, moments
from privreg.means.model import PrivateMeans, estimate, survival, table_one
from privreg.means.results.results import MeansResults
from privreg.means.stream import MeansStream
from privreg.options.unknown import public_names
from privreg.published.shrinking.rules import hdr4me, james_stein, shrink, soft_threshold, sure_threshold

__all__ = [
    "MeansResults", "MeansStream", "PrivateMeans", "benchmark", "break_even", "estimate", "hdr4me",
    "james_stein", "moments", "shrink", "soft_threshold", "sure_threshold", "survival", "table_one",
]  # fmt: skip

__dir__, __getattr__ = public_names(__name__, __all__)
