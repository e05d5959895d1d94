"""Numbers of people for comparisons of two groups' shares or means."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

from privreg.errors import BudgetError, InferenceError, OptionError, choose, level, number, real, shown
from privreg.means.plan import Plan, Sums, make_plan
from privreg.means.terms import Term
from privreg.options.table import check
from privreg.options.unknown import known_arguments
from privreg.planning.search import SEES, TRUST, people_for, power_of, shift_for
from privreg.privacy.ledger import UNSET, Budget
from privreg.tables import Paragraph, Part, Table, View


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
) -> "TwoGroups":
    """Plan the comparison of two public groups' shares or means by :func:`privreg.means.estimate`.

    Parameters
    ----------
    share : float
        Of shares: that of the first group, in (0, 1).
    mean, sd, bounds : float, float, (float, float)
        Of means, in the number's own units: that of the first group (the middle of the bounds by default), the standard
        deviation within groups, and the declared bounds.
    difference, n, power : float, int, float
        Difference of the second group to the first, records of both together, and with what probability a test finds
        it, 0.8 by default. Of difference and n what is left out is found; given both, the power is.
    mu, epsilon, delta, rho
        Budget *per person*, in one form.
    alpha, ratio : float
        Level of the two-sided test; records of the second group over those of the first.
    trust, missing : str
        As of :func:`privreg.means.estimate`: by default whether somebody answered is private, too.

    Returns
    -------
    TwoGroups
        ``n``, ``power``, ``difference`` and ``compare_trust()``. If no number of people is enough, it is an
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
    parts = number("ratio", ratio, "be a positive number")
    if (sd is None or bounds is None) if share is None else any(v is not None for v in (mean, sd, bounds)):
        raise OptionError("give share= to compare shares, or sd= and bounds= to compare means: one or the other.")
    if share is not None:  # the mean of 0 and 1
        first, spread = number("share", share, "be a number in (0, 1)", high=1.0), 0.0
        term = Term("answer", levels=("no", "yes"))
    else:
        ends = [real(v) for v in bounds] if isinstance(bounds, tuple | list) else []
        start, end = ends if len(ends) == 2 else (None, None)
        if start is None or end is None or not -math.inf < start < end < math.inf:
            raise OptionError(f"bounds={shown(bounds)} must be (low, high), two finite numbers.")
        within = f"be a number between the bounds, {start:g} and {end:g}"
        first = number("mean", 0.5 * (start + end) if mean is None else mean, within, start, end)
        term, most = Term("answer", start, end), math.sqrt((end - first) * (first - start))
        must = f"be positive, and at most {most:.4g}, as numbers within these bounds have with that mean"
        spread = number("sd", sd, must, high=math.nextafter(most, math.inf))
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
    if by:
        return replace(out, power=float(power_of(abs(by) / out.std_error(), out._z)))
    # the least difference that is found with the power, upwards unless there is no room
    sign, most = math.copysign(1.0, high + low), max(high, -low) * (1.0 - 1e-9)
    shift = shift_for(wanted, out._z)

    def over(size: float) -> float:
        return size - shift * replace(out, difference=sign * size).std_error()

    if over(most) < 0.0:
        raise InferenceError(f"with {out.n:,} records no difference within the bounds is found with that power.")
    return replace(out, difference=sign * float(brentq(over, 0.0, most, rtol=1e-6)))


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

    @property
    def _z(self) -> float:
        return float(norm.isf(self.alpha / 2.0))

    def _needed(self) -> "TwoGroups":
        """Plan with the records that its power needs."""
        allowed = abs(self.difference) / shift_for(self.power, self._z)
        return replace(self, n=people_for(lambda n: self.std_error(n) / allowed))

    def compare_trust(self) -> pd.DataFrame:
        """Records needed for the difference and the power under each trust model, and without privacy.

        Indexed by trust model: sees_a_row, people (missing where the budget can't be kept), std_error.
        """
        rows: dict[str, tuple[str, int | None, float]] = {}
        for trust in (*TRUST, "no privacy"):
            try:
                one, free = self, trust == "no privacy"
                if trust != self.trust:
                    budget, under = (Budget.declare(mu=None), "local") if free else (self.budget, trust)
                    plan = make_plan((self.term,), budget, nonresponse=self.missing == "noise", trust=under)
                    one = replace(self, plan=plan, trust=trust)._needed()
                rows[trust] = (SEES[trust], one.n, one.std_error())
            except (BudgetError, InferenceError):
                rows[trust] = (SEES[trust], None, math.nan)
        table = pd.DataFrame.from_dict(rows, orient="index", columns=["sees_a_row", "people", "std_error"])
        return table.astype({"people": "Int64"})

    def _layout(self) -> list[Part]:
        (a, b), kind = self.people, "shares" if self.term.levels else "means"
        head = (
            f"Two groups, {kind} {self.mean:.6g} and {self.mean + self.difference:.6g}: {self.n:,} records, {a:,} and "
            f"{b:,} ({self.budget} per person{TRUST[self.trust]})."
        )
        said = f"A difference of {self.difference:.4g} is found at level {self.alpha:g} with power {self.power:.3f}."
        table = self.compare_trust()
        rows = list(zip(table["sees_a_row"], ["-" if n is pd.NA else f"{n:,}" for n in table["people"]], strict=True))
        title = f"Records for a power of {self.power:.3g}"
        return [Paragraph(f"{head}\n{said}"), Table(list(table.index), ["who sees a row", "records"], rows, title)]
