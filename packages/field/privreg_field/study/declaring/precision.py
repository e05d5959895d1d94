"""Expected widths of a study's intervals, before anybody is asked, and shares of the budget for its analyses."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from privreg.errors import PrivregError
from privreg.fits.fit_plan import FitPlan
from privreg.options.spelling import in_study
from privreg.planning import power
from privreg.planning.plan import BUDGETS
from privreg.privacy.ledger import Budget
from privreg.tables import as_text, respelt
from privreg_field.study.declaring.declared import Declared
from privreg_field.study.tabled import TableFit, half_widths
from privreg_field.wire.study import PublicPlan, alike


def planned(analyses: Sequence[Declared], plans: Sequence[PublicPlan]) -> str:
    """Expected widths of each analysis at the number of people that the study says; empty if it says none.

    Of a regression what `pr.plan` says: people, widths, which of them not to rely on.
    """
    out, noisy = list[str](), list[float]()
    parts = alike(plans)
    for one, plan in [*zip(analyses, plans, strict=True)][: 1 if parts else None]:
        head = f"{plan.part.name}: " if plan.part.name else ""
        if one.fit.rows is None:
            continue
        try:
            more, sds = len(plans) > 1, one.about.sd
            text, noise = _table(one.fit, plan, sds) if isinstance(one.fit, TableFit) else _fit(one.fit, more, sds)
        except PrivregError as e:
            text, noise = textwrap.fill(f"How wide intervals will be is not known: {in_study(str(e))}", 78), math.nan
        out.append(f"{head}{text}\n\n")
        noisy.append(noise)
    if parts and noisy and math.isfinite(noisy[0]):
        out.append(f"{_price(len(plans), max(noisy[0], 0.0))}\n\n")
    elif len(noisy) == len(plans) > 1 and np.isfinite(noisy).all():
        out.append(f"{_suggested(plans, noisy)}\n\n")
    return "".join(out)


def _price(m: int, noise: float) -> str:
    """Standard errors of m parts combined by Hodges and Lehmann's estimate; `noise` is over sampling's, in a part.

    Relative to one fit of all people they are √(π/3 · (1 + r)/(1 + r/m)) times as large.
    """
    times = math.sqrt(math.pi / 3.0 * (1.0 + noise) / (1.0 + noise / m))
    shift = math.sqrt(3.0 / m)
    text = (
        f"All {m} parts are this model, each of one in {m} people. study.combined() has standard errors 1/√{m} of "
        f"theirs, times 1.02: {times:.2f} times those of one fit of all. In return somebody who lies spoils one part "
        f"at most, which moves the combined estimate by {shift:.2f} of its standard error, whatever was sent."
    )
    return textwrap.fill(text, 78)


def _fit(fit: FitPlan, several: bool, sds: Mapping[str, float] = MappingProxyType({})) -> tuple[str, float]:
    """Text of `pr.plan`, and the noise's variance over that of sampling, on average."""
    assert fit.rows is not None  # by whoever calls
    pilot: list[Any] = []
    if sds:
        design, left = fit.spec.design, sds.get(str(fit.spec.design.endog_bare)) if fit.spec.family.scaled else None
        given = {c: sd for c, sd in sds.items() if c in design.columns and c not in design.endog_sources}
        pilot = [{"sd": given, "residual_sd": left}]
    plan = power.plan_of_fit(fit, fit.rows, *pilot)
    noise = math.nan
    if several:
        free = plan._at(replace(fit.spec, budget=Budget.declare(BUDGETS[1])))
        noise = float(np.mean((plan.table()["std_error"] / free.table()["std_error"]) ** 2)) - 1.0
    text = as_text(respelt(plan._layout(), in_study))
    if plan.assumed.usual:
        said = (
            "Standard errors and widths above follow from these sds (standard deviations). Write those that are known "
            "into the file, of covariates their own and of the response that of its residuals: sd: {age: 12, …}"
        )
        text += f"\n\n{textwrap.fill(said, 78)}"
    if fit.asked.like is not None:
        text += "\n\nTarget: fixed, that of the earlier fit in like:"
    return text, noise


def _table(fit: TableFit, plan: PublicPlan, sds: Mapping[str, float]) -> tuple[str, float]:
    """Widths of a table's intervals, and the noise's variance over that of sampling, on average."""
    assert fit.rows is not None  # by whoever calls
    found = half_widths(fit, plan.table, plan.bits, fit.rows, sds)
    wide = max(len(name) for name, _, _ in found)
    lines = [f"  {name:<{wide}}  ± {half:.3g}" for name, half, _ in found]
    how = "have the file's sd" if sds else "are spread evenly"
    text = f"A table of {fit.rows:,} people. 95% intervals, if numbers {how} and levels are equally frequent:"
    return "\n".join([text, *lines]), float(np.mean([ratio for _, _, ratio in found]))


def _suggested(plans: Sequence[PublicPlan], noisy: Sequence[float]) -> str:
    """Shares by which the analyses' variances, each over what it would be without noise, have the least sum.

    With r the noise's variance over that of sampling, at the whole budget, a variance is 1 + r/s times that of
    everybody without noise if the share s is of μ², (1 + r)/s if it is of people: least for s in proportion to √r, or
    √(1 + r).
    """
    split = plans[0].part.people[1] != plans[-1].part.people[1]
    parts = [p.part.people[1] - p.part.people[0] if split else (p.mu.p / p.mu.q) ** 2 for p in plans]
    shares = np.array(parts) / sum(parts)
    best = np.sqrt(np.maximum(noisy, 0.0) + 1.0 if split else np.maximum(noisy, 0.0) * shares)
    best = best / best.sum() if best.sum() > 0.0 else shares
    said = "; ".join(f"{p.part.name} {s:.2f} (now {t:.2f})" for p, s, t in zip(plans, best, shares, strict=True))
    text = f"Shares for which the analyses' variances, each over that without noise, have the least sum: {said}."
    return "\n".join(textwrap.wrap(text, 78))
