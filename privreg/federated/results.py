"""Results of a federated fit: made of reports and public numbers only."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pandas as pd

from privreg.diagnostics import Note, reliable
from privreg.diagnostics import caution as warn_of
from privreg.errors import NotPrivateError
from privreg.federated.plan import Plan
from privreg.federated.server import settled
from privreg.federated.statement import ClientStatement
from privreg.results.data import ResultData
from privreg.results.prediction import check_which, note_outside, predicted
from privreg.results.summary import Summary, caution, level_table
from privreg.unavailable import all_known_arguments, called, unavailable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["FederatedResults", "make_results"]

STILL_MOVING: Final = Note(
    "The model was still on its way: it moved in the second half of the rounds by more than noise explains, so "
    "coefficients fall short of where the rounds would settle. Ask for more rounds, more local steps, or a larger "
    "clip.",
    "moving",
)
ENOUGH: Final = 0.1
"""Share of the model's length by which it may move in the second half of the rounds."""
FAR: Final = 2.0
"""Root mean squares of noise by which it may move."""
_NO_ERRORS: Final = frozenset(
    [
        "bse",
        "tvalues",
        "pvalues",
        "conf_int",
        "cov_params",
        "t_test",
        "wald_test",
        "f_test",
        "get_prediction",
        "marginal_effects",
    ]
)


@all_known_arguments
class FederatedResults:
    """Coefficients of a federated fit, with the guarantee they were made under.

    Made by :meth:`FederatedRegression.fit` or a Flower server. Holds randomised and public numbers only.
    """

    def __init__(self, plan: Plan, path: Array, statement: ClientStatement) -> None:
        self._plan, self._path = plan, path
        spec = plan.spec
        many = len(path) - 1
        outside = plan.outside(path)
        self._outside = outside
        self._fit = ResultData(
            design=spec.design, family=spec.family, title=_title(plan), names=spec.coefficients,
            params=plan.outside(settled(path)), last=outside[-1], estimates=(), nobs=plan.silos, senders=plan.silos,
            updates=many, trail_n=np.arange(many + 1), trail_senders=np.full(many + 1, plan.silos),
            trail_params=outside, trail_variances=np.full_like(outside, np.nan),
            statement=cast("Any", statement), baseline=spec.baseline,
        )  # fmt: skip
        self._statement = statement

    @property
    def params(self) -> pd.Series | pd.DataFrame:
        """Coefficients in the user's units: the mean of the models of the second half of the rounds.

        Series of shape (p,); of a multinomial fit a DataFrame, terms by levels without the baseline.
        """
        return self._fit.shaped(self._fit.params)

    @property
    def params_last(self) -> pd.Series | pd.DataFrame:
        """The model after the last round, shaped like :attr:`params` and noisier."""
        return self._fit.shaped(self._fit.last)

    @property
    def privacy(self) -> ClientStatement:
        """Who is protected, and by how much."""
        return self._statement

    @property
    def silos(self) -> int:
        """How many silos reported in every round; public."""
        return self._plan.silos

    @property
    def rounds(self) -> int:
        """Rounds."""
        return self._plan.rounds

    def trajectory(self) -> pd.DataFrame:
        """Models sent to the silos and the last one, user's units; columns term, round, estimate (and level)."""
        m, p = self._outside.shape
        return self._fit.labels(m).assign(round=np.repeat(np.arange(m), p), estimate=self._outside.ravel())

    def tidy(self) -> pd.DataFrame:
        """Coefficients as a tidy table: term, estimate, reliable (whether no note takes it back), perhaps level."""
        kept = reliable(self._statement.found, len(self._fit.params))
        return self._fit.labels().assign(estimate=self._fit.params, reliable=kept)

    def _caution(self, stacklevel: int = 2) -> bool:
        """Warn if there are rows that should not be relied on; return whether there are."""
        found = self._statement.found
        return warn_of(self._fit.names, found, what="the estimates of", stacklevel=stacklevel + 1)

    def predict(self, exog: Any, *, which: str = "mean") -> pd.Series | pd.DataFrame:
        """Predict at new covariate values, on the response's scale.

        Parameters
        ----------
        exog : DataFrame, mapping of str to array, or array of shape (n, p) for array models
            Nothing is clamped to the declared bounds; what lies outside is named in a `PrivregWarning`.
        which : {"mean", "linear", "class"}
            As :meth:`privreg.results.PrivateResults.predict` has it.

        Notes
        -----
        Predictions for private rows are computed from them without noise, and are as secret as the rows.

        Raises
        ------
        OptionError
            If the family has no such predictions.
        DataError, SchemaError
            If the new rows can't be encoded.
        """
        kind = check_which(which, self._fit.family)
        x, offset = self._fit.design.encode_new(exog)
        note_outside(self._fit, exog, x, "predict", stacklevel=3)
        index = exog.index if isinstance(exog, pd.DataFrame | pd.Series) else pd.RangeIndex(len(x))
        return predicted(self._fit, x, offset, index, kind)

    def plot(self, terms: Any = None, *, ax: Any = None) -> Axes:
        """Draw coefficients over the rounds.

        Parameters
        ----------
        terms : str or sequence of str, optional
            Names of coefficients ("level:term" of a multinomial fit); all by default, up to twelve.
        ax : Axes, optional

        Returns
        -------
        Axes

        Raises
        ------
        OptionError
            If a term is not known.
        MissingExtraError
            If matplotlib is not installed.
        """
        from privreg.federated.plots import over_rounds

        return over_rounds(self, terms, ax)

    def summary(self) -> Summary:
        """Header, coefficients and privacy statement; prints as text, shows as HTML in notebooks."""
        return _summarise(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if re.split(r"\W", called(name) or name)[0] in _NO_ERRORS:
            raise NotPrivateError(
                f"{name!r} needs standard errors, which federated fits don't have: clipping and local steps move what "
                "rounds settle at by an unknown amount. Where every record may report by itself, "
                "PrivateOnlineRegression has them."
            )
        raise unavailable(name, dir(type(self)))

    def __repr__(self) -> str:
        spec = self._plan.spec
        return f"<FederatedResults: {spec.formula}, {self.silos} silos, {self.rounds} rounds, {self._statement.short}>"

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def make_results(plan: Plan, path: tuple[Array, ...], statement: ClientStatement) -> FederatedResults:
    """Results of the models that a server sent and ended with, internal units."""
    models = np.array(path)
    found = (STILL_MOVING,) if _still_moving(plan, models) else ()
    return FederatedResults(plan, models, replace(statement, found=found))


def _still_moving(plan: Plan, path: Array) -> bool:
    """Whether the model moved in the second half of the rounds by more than noise explains; from reports alone."""
    since = plan.rounds - plan.rounds // 2
    moved, size = (float(np.linalg.norm(v)) for v in (path[-1] - path[-1 - since], path[-1]))
    m = plan.mechanism
    noise = since * float(plan.shares @ plan.shares) * m.mean_square(np.zeros(m.size)) if m.unbiased else 0.0
    return moved > max(ENOUGH * size, FAR * math.sqrt(noise))


def _title(plan: Plan) -> tuple[tuple[str, str], ...]:
    spec = plan.spec
    batch = "all records" if plan.batch is None else f"{plan.batch:,} records"
    return (
        ("Dep. Variable", str(spec.design.endog_name)),
        ("Family", plan.words),
        ("Silos", f"{plan.silos:,}"),
        ("Rounds", f"{plan.rounds:,}"),
        ("Local steps", f"{plan.local_steps:,} of {plan.step:.4g}, {batch}"),
        ("Update clip", f"{plan.mechanism.clip:.4g}"),
        ("Weights", "equal" if plan.weights is None else "public"),
        ("Model", spec.formula),
        ("Estimand", f"{spec.family.estimand}, as far as clipping and local steps let it be reached"),
    )


def _summarise(results: FederatedResults) -> Summary:
    """Summary of a federated fit, laid out as that of a regression."""
    fit, table, statement = results._fit, results.tidy(), results.privacy
    shown = level_table(table, 0.05, str(fit.design.endog_name), results._plan.spec.baseline)
    below = caution(table, statement.notes, statement.found)
    return Summary("Private Federated Regression Results", fit.title, shown, below, cast("Any", statement))
