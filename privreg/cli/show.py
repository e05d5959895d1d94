"""The verb ``privreg show``: results that a file keeps."""

from __future__ import annotations

import argparse

from privreg.cli import fit, means, output
from privreg.errors import OptionError


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    targets, alpha = output.targets(a), output.alpha(a)

    from privreg.doors.loading import load_results
    from privreg.means.results.results import MeansResults

    res = load_results(a.path)
    several = isinstance(res, MeansResults)
    a.formula = dict(res.header if several else res._fit.title).get("Formula", a.path)
    if not several:
        return output.deliver(fit.shown(res, a, alpha), targets, a)
    for option, asked in (("--simultaneous", a.simultaneous), ("--exponentiate", a.exponentiate)):
        if asked:
            raise OptionError(f"{option}: these are means and frequencies, not coefficients; leave it out.")
    return means.deliver(res, targets, a, alpha)
