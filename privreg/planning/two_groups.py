"""Numbers of people for comparisons of two groups' shares or means."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from privreg.errors import BudgetError, InferenceError, OptionError, choose, level, number, real, shown
from privreg.means.plan import Plan, Sums, make_plan
from privreg.means.terms import Term
from privreg.options.table import check
from privreg.options.unknown import known_arguments
from privreg.planning.plan import TRUST, people_for, power_of, shift_for
from privreg.planning.study_plan import SEES
from privreg.privacy.ledger import UNSET, Budget
from privreg.results.plots import style
from privreg.results.plots.style import Axes
from privreg.tables import Paragraph, Part, Table, View

POINTS: Final = 101


@known_arguments
def plan_two_groups(
    *,
    share: float | None = None,
    mean: float | None = None,
    sd: float | None = None,
    bounds: tuple[float, float] | None = None,
    difference: float | None = None,
    power: float | None = None,
    n: int | None = None,
    mu: Any = UNSET,
    epsilon: Any = None,
    delta: Any = None,
    rho: Any = None,
    alpha: float = 0.05,
    ratio: float = 1.0,
    trust: str = "local",
    missing: str = "noise",
) -> TwoGroups:
    """Plan the comparison of two public groups' shares or means by :func:`privreg.means.estimate`.

    Parameters
    ----------
    share : float
        Of shares: that of the first group, in (0, 1).
    mean, sd, bounds : float, float, (float, float)
        Of means, in the number's own units: that of the first group (the middle of the bounds by default), the standard
        deviation within groups, and the declared bounds.
    difference : float
        Of the second group to the first, that a test is to find. Left out, it is what is found.
    power : float
        With what probability; 0.8 by default.
    n : int, optional
        Records of both groups together. Left out, it is what is found; with `difference` the power is.
    mu, epsilon, delta, rho
        Budget *per person*, in one form.
    alpha : float
        Level of the two-sided test.
    ratio : float
        Records of the second group over those of the first.
    trust, missing : str
        As of :func:`privreg.means.estimate`: by default whether somebody answered is private, too.

    Returns
    -------
    TwoGroups
        ``n``, ``power``, ``difference``, ``compare_trust()`` and ``plot()``. If no number of people is enough, it is an
        InferenceError.

    Notes
    -----
    The variance of an estimate from m people is v/m + c/m²: v is the variance within a group and, with local noise,
    that of a person's report; c belongs to noise on sums. The test is normal. Everybody is taken to answer.

    Examples
    --------
    >>> import privreg as pr
    >>> pr.plan_two_groups(share=0.4, difference=0.05, power=0.8, mu=1, trust="two_collectors").n
    3080
    """
    budget = Budget.declare(mu, epsilon, delta, rho)
    choose("trust", trust, TRUST)
    choose("missing", missing, ("noise", "raise"))
    parts, (term, first, spread) = number("ratio", ratio, "be a positive number"), _group(share, mean, sd, bounds)
    if n is None and difference is None:
        raise OptionError("give difference= to find how many records, or n= to find the difference.")
    if n is not None and difference is not None and power is not None:
        raise OptionError("n=, difference= and power= say the same twice; leave one of them out.")
    wanted = number("power", 0.8 if power is None else power, "be a number between alpha and 1", level(alpha), 1.0)
    by, low, high = real(difference), term.low - first, term.high - first
    if difference is not None and (not by or not low < by < high):
        raise OptionError(f"difference={shown(difference)} must be a number other than 0 between {low:g} and {high:g}.")
    plan = make_plan((term,), budget, nonresponse=missing == "noise", trust=trust)
    people, how = 0 if n is None else check("plan.formula", "n", n), (alpha, parts, trust, missing, budget)
    out = TwoGroups(term, first, spread, plan, by or 0.0, wanted, people, *how)
    if n is None:
        return out._needed()
    if min(out.people) < 2:
        a, b = out.people
        raise OptionError(f"n={out.n} gives groups of {a} and {b} records; each needs 2 or more.")
    return replace(out, power=out.power_with(out.n)) if by else replace(out, difference=out._detectable())


def _group(share: Any, mean: Any, sd: Any, bounds: Any) -> tuple[Term, float, float]:
    """Question, mean of the first group and sd within groups; a share is the mean of 0 and 1."""
    if share is not None:
        if any(v is not None for v in (mean, sd, bounds)):
            raise OptionError("share= compares shares; mean=, sd= and bounds= belong to means: give one or the other.")
        return Term("answer", levels=("no", "yes")), number("share", share, "be a number in (0, 1)", high=1.0), 0.0
    if sd is None or bounds is None:
        raise OptionError("give share= to compare shares, or sd= and bounds= to compare means.")
    ends = [real(v) for v in bounds] if isinstance(bounds, tuple | list) else []
    low, high = ends if len(ends) == 2 else (None, None)
    if low is None or high is None or not -math.inf < low < high < math.inf:
        raise OptionError(f"bounds={shown(bounds)} must be (low, high), two finite numbers.")
    within = f"be a number between the bounds, {low:g} and {high:g}"
    middle = number("mean", 0.5 * (low + high) if mean is None else mean, within, low, high)
    spread, most = number("sd", sd, "be a positive number"), math.sqrt((high - middle) * (middle - low))
    if spread > most:
        raise OptionError(
            f"sd={spread:g} is more than numbers within these bounds can have with that mean, {most:.4g}."
        )
    return Term("answer", low, high), middle, spread


@dataclass(frozen=True, repr=False)
class TwoGroups(View):
    """Precision of a comparison of two groups. Made by :func:`plan_two_groups`."""

    term: Term  # Question that both groups are asked
    mean: float  # Mean of the first group, in the number's units
    sd: float  # Sd of means' numbers, within groups
    plan: Plan  # Plan of each person's report
    difference: float
    power: float
    n: int  # Records of both groups
    alpha: float
    ratio: float
    trust: str
    missing: str
    budget: Budget

    @property
    def people(self) -> tuple[int, int]:
        """Records of each group."""
        one = round(self.n / (1.0 + self.ratio))
        return one, self.n - one

    def std_error(self, n: float | None = None) -> float:
        """Standard error of the difference."""
        total = self.n if n is None else n
        one = total / (1.0 + self.ratio)
        return math.sqrt(self._variance(0.0, one) + self._variance(self.difference, total - one))

    def _variance(self, by: float, m: float) -> float:
        """Variance of the estimate of a group of m people, in the number's units."""
        plan, term, mean = self.plan, self.term, self.mean + by
        asked = m * plan.asked / len(plan.items)
        mechanisms: list[Any] = [item.mechanism for item in plan.items]
        if term.levels:  # the share of those who answered, with all shares adding up to 1
            oracle, size = mechanisms[0], plan.items[0].size
            shares = np.array([1.0 - mean, mean, 0.0])[:size]
            gradient = np.array([0.0, 1.0, mean])[:size]
            if not isinstance(plan, Sums):
                gradient = gradient - oracle.shares_of_error(shares) @ gradient
                return float(gradient @ oracle.covariance(shares) @ gradient) / asked
            gradient = gradient - gradient.mean()
            return mean * (1.0 - mean) / m + float(gradient**2 @ plan.variances(1)[:size]) / m**2
        half, inside, spread = term.half, (mean - term.middle) / term.half, self.sd / term.half
        if isinstance(plan, Sums):
            noise = plan.variances(1)
            more = noise[1] * inside**2 if len(plan.items) > 1 else 0.0
            return self.sd**2 / m + half**2 * float(noise[0] + more) / m**2
        # mechanisms' variances are quadratic in the value at most, but for steps: two values of this mean and sd do
        low = max(inside - spread, -1.0)
        high = min(inside + spread**2 / max(inside - low, 1e-12), 1.0)
        weight = (inside - low) / max(high - low, 1e-12)
        drawn = np.array([1.0 - weight, weight]) @ mechanisms[0].variance(np.array([low, high]))
        more = inside**2 * mechanisms[1].variance(np.array([1.0]))[0] if len(mechanisms) > 1 else 0.0
        return half**2 * float(drawn + spread**2 + more) / asked

    def power_with(self, n: float) -> float:
        """Probability that the test finds the difference with so many records."""
        return float(power_of(abs(self.difference) / self.std_error(int(n)), self._z))

    @property
    def _z(self) -> float:
        return float(norm.isf(self.alpha / 2.0))

    def _detectable(self) -> float:
        """Least difference, upwards unless there is no room, that is found with the power.
        Raises InferenceError if none within the bounds is.
        """
        up, down = self.term.high - self.mean, self.mean - self.term.low
        sign, most = math.copysign(1.0, up - down), max(up, down) * (1.0 - 1e-9)
        shift = shift_for(self.power, self._z)

        def over(by: float) -> float:
            return by - shift * replace(self, difference=sign * by).std_error()

        if over(most) < 0.0:
            raise InferenceError(f"with {self.n:,} records no difference within the bounds is found with that power.")
        return sign * float(brentq(over, 0.0, most, rtol=1e-6))

    def _needed(self) -> TwoGroups:
        """Plan with the records that its power needs."""
        allowed = abs(self.difference) / shift_for(self.power, self._z)
        return replace(self, n=people_for(lambda n: self.std_error(n) / allowed))

    def _under(self, trust: str) -> TwoGroups:
        """Plan of these records under another trust model, or without privacy."""
        budget, under = (Budget.declare(mu=None), "local") if trust == "no privacy" else (self.budget, trust)
        plan = make_plan((self.term,), budget, nonresponse=self.missing == "noise", trust=under)
        return replace(self, plan=plan, trust=trust)

    def compare_trust(self) -> pd.DataFrame:
        """Records needed for the difference and the power under each trust model, and without privacy.

        Indexed by trust model: sees_a_row, people (missing where the budget can't be kept), std_error.
        """
        rows: dict[str, tuple[str, int | None, float]] = {}
        for trust in (*TRUST, "no privacy"):
            try:
                one = self if trust == self.trust else self._under(trust)._needed()
                rows[trust] = (SEES[trust], one.n, one.std_error())
            except (BudgetError, InferenceError):
                rows[trust] = (SEES[trust], None, math.nan)
        table = pd.DataFrame.from_dict(rows, orient="index", columns=["sees_a_row", "people", "std_error"])
        return table.astype({"people": "Int64"})

    def plot(self, *, title: str | None = None, ax: Any = None) -> Axes:
        """Draw the power over numbers of records, under each trust model."""
        footer = f"{self._what()}; {self.budget} per person, level {self.alpha:g}"
        with style.drawing(ax, (style.COLUMN, 0.8 * style.COLUMN), footer, title) as on:
            table, inks = self.compare_trust()["people"].dropna(), style.inks_for(on)
            n = np.geomspace(max(0.1 * float(table.min()), 20.0), 3.0 * float(table.max()), POINTS)
            for i, trust in enumerate(t for t in TRUST if t in table):
                one = self._under(trust)
                label = trust.replace("_", " ")
                on.plot(n, [one.power_with(k) for k in n], style.DASHES[i], color=inks[i], label=label)
            on.axhline(self.power, color=inks.grey, linewidth=0.7, linestyle=":")
            on.set(xscale="log", xlabel="records of both groups", ylabel="power", ylim=(0.0, 1.02))
            on.legend(frameon=False, fontsize=style.SMALL)
        return cast("Axes", on)

    def _what(self) -> str:
        kind = "shares" if self.term.levels else "means"
        return f"{kind} {self.mean:.6g} and {self.mean + self.difference:.6g}"

    def _layout(self) -> list[Part]:
        a, b = self.people
        whose = f"{self.budget} per person{TRUST[self.trust]}"
        head = f"Two groups, {self._what()}: {self.n:,} records, {a:,} and {b:,} ({whose})."
        said = f"A difference of {self.difference:.4g} is found at level {self.alpha:g} with power {self.power:.3f}."
        table = self.compare_trust()
        people = ["-" if n is pd.NA else f"{n:,}" for n in table["people"]]
        rows = list(zip(table["sees_a_row"], people, strict=True))
        title = f"Records for a power of {self.power:.3g}"
        return [Paragraph(f"{head}\n{said}"), Table(list(table.index), ["who sees a row", "records"], rows, title)]
