"""What a statistician is handed: results, tests, predictions, tables, the privacy statement, plots. Reports only."""

from privreg.results.results import PrivateResults

__all__ = ["PrivateResults"]
