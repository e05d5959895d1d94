"""Results of a federated fit and their privacy statement: made of reports and public numbers only."""

import math
import re
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg.errors import NotPrivateError
from privreg.options.unknown import all_known_arguments, called
from privreg.privacy.ledger import Release, at_least
from privreg.published.federated.plan import Plan, State
from privreg.published.federated.reports import trials
from privreg.results.base import Results
from privreg.results.data import ResultData
from privreg.results.postestimation.prediction import predicted
from privreg.results.statement import PrivacyStatement, Unusable
from privreg.results.summary import Summary, laid_out
from privreg.tables.diagnostics import note

ENOUGH: Final = 0.1  # Share of the model's length by which it may move in the second half of the rounds
FAR: Final = 2.0  # Root mean squares of noise by which it may move
_NO_ERRORS: Final = frozenset({
    "bse", "tvalues", "pvalues", "conf_int", "cov_params", "get_prediction", "for_marginaleffects", "t_test",
    "t_test_pairwise", "wald_test", "wald_test_terms", "f_test", "anova",
})  # fmt: skip


@all_known_arguments
class FederatedResults(Results):
    """Coefficients of a federated fit, with the guarantee they were made under.

    Made by :meth:`privreg.federated.FederatedRegression.fit` or a Flower server. They are the mean of the models of the
    second half of the rounds. Holds randomised and public numbers only.
    """

    _fit: ResultData

    @property
    def params_last(self) -> pd.Series | pd.DataFrame:
        """The model after the last round, shaped like :attr:`params` and noisier."""
        return self._fit.shaped(self._fit.last)

    @property
    def silos(self) -> int:
        """Number of silos that reported in every round; public."""
        return self._fit.senders

    @property
    def rounds(self) -> int:
        """Rounds."""
        return self._fit.updates

    def trajectory(self) -> pd.DataFrame:
        """Models sent to the silos and the last one, user's units; columns term, round, estimate (and level)."""
        models = self._fit.trail_params
        m, p = models.shape
        return self._fit.labels(m).assign(round=np.repeat(np.arange(m), p), estimate=models.ravel())

    def tidy(self) -> pd.DataFrame:
        """Coefficients as a tidy table: term, estimate, reliable (whether no note takes it back), perhaps level."""
        return self._table()

    def predict(self, exog: Any, *, which: str = "mean") -> pd.Series | pd.DataFrame:
        """Predict at new covariate values, as :meth:`privreg.results.PrivateResults.predict` does.

        Predictions for private rows are computed from them without noise, and are as secret as the rows.
        Raises OptionError if the family has no such predictions; DataError if the new rows lack a column, or several
        pandas objects have different indexes.
        """
        return predicted(self, exog, which)

    def summary(self, *, details: bool = False) -> Summary:
        """Coefficients and guarantee, with `details` all of the header; prints as text, shows as HTML in notebooks."""
        table = self.tidy()
        return laid_out(self, table, "Private Federated Regression Results", not details).cautioned(table)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if re.split(r"\W", called(name) or name)[0] in _NO_ERRORS:
            raise NotPrivateError(
                f"{name!r} needs standard errors, which federated fits don't have: clipping and local steps move the "
                "limit of the rounds by an unknown amount. Fits of several groups of silos, each silo in one, are "
                "pooled with standard errors by privreg.meta_analysis. Where every record may report by itself, "
                "PrivateOnlineRegression has them."
            )
        return super().__getattr__(name)

    def __repr__(self) -> str:
        formula, many = dict(self._fit.title)["Model"], f"{self.silos} silos, {self.rounds} rounds"
        return f"<FederatedResults: {formula}, {many}, {self.privacy.short}>"


def make_results(plan: Plan, state: State, statement: PrivacyStatement) -> FederatedResults:
    """Results of the models that a server sent and ended with, internal units, and how many records were usable.

    A note says if the model moved in the second half of the rounds by more than noise explains, from reports alone.
    """
    models, unusable, m = np.array(state.path), _unusable(plan, state), plan.mechanism
    lost = f"{unusable} of a silo's records could not be used, on average, by the reports, and were left out"
    found = list(unusable.noted(lost))
    since, many = plan.rounds - plan.rounds // 2, len(models) - 1
    moved, size = (float(np.linalg.norm(v)) for v in (models[-1] - models[-1 - since], models[-1]))
    each = 0.0 if m.geometric else float(m.moments(np.zeros(m.size))[1][: plan.size].sum())
    if moved > max(ENOUGH * size, FAR * math.sqrt(since * float(plan.shares @ plan.shares) * each)):
        found.append(note("moving.silos"))
    spec, outside = plan.spec, plan.outside(models)
    batch = "all records" if plan.batch is None else f"{plan.batch:,} records"
    title = {
        "Dep. Variable": str(spec.design.endog_name),
        "Family": plan.words,
        "Silos": f"{plan.silos:,}",
        "Rounds": f"{plan.rounds:,}",
        "Local steps": f"{plan.local_steps:,} of {plan.step:.4g}, {batch}",
        "Update clip": f"{plan.clip:.4g}",
        "Weights": "equal" if np.ptp(plan.shares) == 0.0 else "public",
        "Model": spec.formula,
        "Estimand": f"{spec.family.estimand}, as far as clipping and local steps let it be reached",
    } | ({"Unusable": f"{unusable} of a silo's records"} if unusable.sure else {})
    half = models[1 + many // 2 :].mean(axis=0)  # steadier than the last one
    return FederatedResults(
        ResultData(
            design=spec.design, family=spec.family, title=tuple(title.items()), names=spec.coefficients,
            params=plan.outside(half), last=outside[-1], estimates=(), nobs=plan.silos, senders=plan.silos,
            updates=many, trail_n=np.arange(many + 1), trail_senders=np.full(many + 1, plan.silos),
            trail_params=outside, trail_variances=np.full_like(outside, np.nan),
            statement=replace(statement, notes=(*found, *statement.notes)), baseline=spec.baseline,
        )
    )  # fmt: skip


def _unusable(plan: Plan, state: State) -> Unusable:
    """Share of a silo's records that could not be used, on average over silos, by the reports of all rounds."""
    if not plan.kappa:
        return Unusable(0.0, 0.0)
    variance = float(plan.shares @ plan.shares * plan.mechanism.moments(np.zeros(plan.mechanism.size))[1][-1])
    return Unusable(0.5 - state.usable / (plan.rounds * plan.kappa), math.sqrt(variance / plan.rounds) / plan.kappa)


PROTECTS = (
    "one silo's whole contribution (client level): neighbours replace all records of one silo at once, and their "
    "number. Within its silo nobody is protected from the silo, which holds the raw records"
)


def make_statement(plan: Plan, release: Release, trust: str, *, seeded: bool = False) -> PrivacyStatement:
    """State what a plan's rounds protect; `release` is the most that any of these silos has released in this process.

    `trust` is "simulated", if one process held all silos' records and played them, or "flower".
    """
    m, private, rounds = plan.mechanism, plan.budget.private, plan.rounds
    beside = f", and beside it the share of usable records, times {plan.kappa:.4g}" if plan.kappa else ""
    also_pure = f" (pure epsilon {at_least(m.budget.epsilon, 4)})" if m.budget.pure and not m.coordinates else ""
    each = f"{at_least(m.mu, 4)}-GDP{also_pure}; times sqrt({rounds}) for {rounds} rounds"
    if plan.budget.pure:
        each = f"{at_least(m.budget.epsilon, 4)}-DP, pure; epsilon adds up over {rounds} rounds"
    biases = {"angles": not m.debias, "box": m.beta < 1.0, "clip": m.name == "ldpvec"}
    out = [note("no_errors"), *[note("public_weights")] * bool(np.ptp(plan.shares) > 0.0)]
    out += [note(f"biased.{kind}", beta=m.beta) for kind, holds in biases.items() if m.geometric and private and holds]
    out += [note("rounding.silos")] * private
    return PrivacyStatement(
        setting="silos", budget=plan.budget, trust=trust, mechanism=f"in each round {m.title}", noise=m.words(),
        noise_sd=0.0, bound=plan.clip, curvature="", protects=PROTECTS, release=release, seeded=seeded,
        weights=f"l2 norm of the whole update at most {plan.clip:.4g}, internal units{beside}; replacing it "
        f"moves it by {2 * m.clip:.4g}. All rounds together can move the model by {rounds * plan.clip:.4g}",
        per_round=each if private else "everything: no noise", declared=plan.spec.declared("count for nothing"),
        notes=tuple(out), certain_mu=plan.total_mu if private else None,
        neighbours=partial(trials, m, rounds=rounds) if private else None,
    )  # fmt: skip
