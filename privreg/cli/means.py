"""The verb ``privreg means``: means and frequencies of a file's columns."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from privreg.cli import output
from privreg.cli.values import budget, check_order, csv_of, given, single

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from privreg.means.results.results import MeansResults


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    from privreg import means

    check_order(a)
    targets, options, alpha = output.targets(a), given(a, "means.formula"), output.alpha(a)
    # a subgroup is named as its level is printed
    groups = {str(g): g for g in options.get("levels", {}).get(a.by, ())}
    given_budgets = single("--by-budget", a.by_budget, "GROUP=NUMBER, such as --by-budget north=0.5")
    budgets = {groups.get(name, name): value for name, value in given_budgets.items()}
    model = means.PrivateMeans.from_formula(
        a.formula, csv_of(a) or a.path, **budget(a), **options, by_budget=budgets or None
    )
    res = model.fit(progress=False if a.quiet else None, **given(a, "means.fit"))
    return deliver(res, targets, a, alpha)


def deliver(res: MeansResults, targets: Sequence[Path], a: argparse.Namespace, alpha: float) -> int:
    """Write and print estimates, those of subgroups after them; the exit status."""
    status = output.deliver(
        output.Shown(res, res.summary(alpha, details=a.details), res.tidy(alpha=alpha), {}, "estimates"), targets, a
    )
    if res.by is not None and not a.quiet:
        table = res.by_group(alpha=alpha)
        print(f"\n{table.to_string(index=False, float_format=lambda v: f'{v:.4g}')}", flush=True)
    return status
