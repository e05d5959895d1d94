"""Results: statsmodels' names with private meanings, computed from reports and public state only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, cast

import pandas as pd
from numpy.typing import NDArray

from privreg.base import archive
from privreg.errors import InferenceError
from privreg.families.measures import frame as measures_frame
from privreg.options.unknown import all_known_arguments
from privreg.results import saving
from privreg.results.data import Frame, ResultData
from privreg.results.estimates import EstimatedResults
from privreg.results.plots import trajectory
from privreg.results.plots.style import Axes
from privreg.results.summary import summary as one_screen
from privreg.results.windows import windows as of_stream


@all_known_arguments
class PrivateResults(EstimatedResults):
    """Results of a private online regression.

    Tests, effects, predictions and tables take `method`, an inference method of this fit, its first by default; it is
    an InferenceError if it was not asked for, or keeps only variances where a covariance is needed. `alpha` is one
    minus the level of intervals or bands; outside (0, 1) it is an OptionError. A string or name that can't be read is a
    FormulaError or an OptionError, new rows that can't be read a DataError or SchemaError. Plots have a `title`, and
    `ax` to be drawn on; without it a figure is made. Matplotlib may be missing, a MissingExtraError.
    """

    _fit: ResultData
    _kind: ClassVar = "results"  # Mark of its files

    @property
    def fit_measures(self) -> pd.DataFrame:
        """Measures of fit that people reported privately, with ``fit(measures=0.05)``.

        The first is the dispersion of ``NegativeBinomial()`` or the sd of ``Tobit()``, which all their fits have.

        measure, estimate, std_error, conf_low, conf_high (95%, normal), meaning. An InferenceError if none were asked
        for, or the records that tell them have not reported yet.
        """
        if not self._fit.measures:
            later = next((n for n in self.privacy.notes if n.code == "later"), None)
            asked = self._measured_by()
            why = f"this fit released no measures of fit{f'; {asked} asks for them' if asked else ', and none can'}."
            raise InferenceError(f"{later}." if later is not None else why)
        return Frame(measures_frame(self._fit.measures))

    def _measured_by(self) -> str:
        said = self.__dict__["_fit"].statement if "_fit" in self.__dict__ else None
        if said is None or said.trust != "devices":
            return super()._measured_by()
        return "" if said.operators else "measures: 0.05 in the study's file"

    @property
    def rounds(self) -> pd.DataFrame:
        """Rounds that records answered, one a row; no rows with ``tuning="published"``.

        round (from 1, in the order in which states were published); role ("location" of columns whose scale is private,
        "moments", "pilot", "clamping" of long streams, "main" or "measures"); records (who were asked); reports (that
        came: as many, but for what is lost in `privreg.simulate`; records with budgets of their own count by their
        weight (μ_i/μ_max)²); moved (how far the round's reports moved the estimate: the largest change of a
        coefficient, in standard errors of these results' estimate by the default method; NaN where a round tells of no
        coefficient).
        """
        columns = ["round", "role", "records", "reports", "moved"]
        return Frame(list(self._fit.rounds), columns=columns)

    def estimand(self, rows: Any = None) -> pd.Series | pd.DataFrame:
        """Solve this fit's own equation on *public or simulated* rows, without noise: what its intervals are for.

        Shaped and labelled like :attr:`params`: θ with Σ w_k n_kg E ω(z) z ψ_k(z'(θ + δ_kg), y) = 0, where ψ_k has the
        threshold of round k, z are covariates by the row map that this run learned, δ_kg is the offset of group g, and
        w_k n_kg is what its reports weigh in the estimate.

        Parameters
        ----------
        rows : DataFrame, mapping of arrays, path of a file, or (endog, exog) for array models
            With the response, and the columns of exposure, offset, personal budgets, `id` and `weights` where there are
            any (of several rows of a person the first `k_max` count, in their order); numbers are clamped to their
            declared bounds as in the fit. Nothing protects these rows.

        Notes
        -----
        Where the model is right and errors are symmetric, this is the truth up to the rows' own sampling error. Where
        it is wrong or errors are skewed, intervals cover these numbers, and another run, with another threshold and
        other weights, targets others.

        Most scores are the gradient of a convex loss, whose minimum is found wherever there is one. Where there are
        several, farther apart than a quarter of c, as of a quantile between two responses, the one that steps from the
        estimate reach is returned, with a PrivregWarning. Scores of multinomial fits and of ``Poisson(c=)`` may have
        several roots, of which that is returned which such steps reach, from the estimate or the likelihood's.

        They are public, so that a value that is missing or not declared is an error; rows that were fitted privately in
        this process are a NotPrivateError, unless with a seed, in a simulation. Results without an equation, as a
        curator's descent's, or whose equation has no root there, are an InferenceError.
        """
        from privreg.doors.estimand import estimand  # it plays rows, and takes results

        return self._fit.shaped(estimand(self._fit, rows))

    def evaluate(self, public_test: Any) -> pd.DataFrame:
        """Compare predictions with responses of a *public* test set, which are used as they are.

        measure, value. By family: mean, squared and absolute errors and R²; log-loss, accuracy and Brier score; mean
        deviance; check loss and the share below the line; hinge loss and accuracy.

        Parameters
        ----------
        public_test : DataFrame, mapping of arrays, path of a CSV file, or (endog, exog) for array models
            Public rows, with the response; numbers are clamped to their declared bounds as in the fit.
        """
        from privreg.doors.estimand import evaluated

        return evaluated(self._fit, public_test)

    plot_trajectory = trajectory.plot_trajectory
    summary = one_screen
    windows = of_stream

    # --- views -----------------------------------------------------------------------------------------

    def plot_coef(
        self,
        terms: Any = None,
        *,
        alpha: float = 0.05,
        intercept: bool = False,
        scaled: bool = False,
        exponentiate: bool = False,
        simultaneous: bool = False,
        title: str | None = None,
        ax: Any = None,
    ) -> Axes:
        """Draw coefficients as dots with their intervals as whiskers; hollow dots should not be relied on.

        Parameters
        ----------
        terms : str or sequence of str, optional
            Coefficients wanted, or terms, such as a factor; all but the intercept by default.
        intercept : bool
            Whether to draw the intercept, a coefficient called Intercept or const, which usually dwarfs all others.
        scaled : bool
            False draws coefficients as they are. True draws what a step of the covariate does, so that rows can be
            compared. The step is public and stands after the row's name, and below the figure what it is: half of the
            declared range, two declared sds, or two sds that the fit has learned from reports; the product of both for
            an interaction. Levels and other columns of 0 and 1 go from 0 to 1 and have no step after their name.
        exponentiate : bool
            Draw exp of them, on a logarithmic axis: odds ratios of Logistic, odds ratios against the baseline of
            Multinomial, rate ratios of Poisson, ratios where the response is ``np.log(y)``.
        simultaneous : bool
            Whether all intervals (the intercept's too) are to hold together, as in :meth:`conf_int`.
        ax : Axes or sequence of Axes, optional
            Where to draw; a sequence where results have several units, such as dollars and log-odds, one Axes each,
            which come back as an array. Long names are wrapped or shortened; ``plt.subplots(layout="constrained")``
            leaves room for them.

        It is saved by ``axes.figure.savefig(path)``.

        References
        ----------
        Gelman (2008), Scaling regression inputs by dividing by two standard deviations: two sds, not one, so that a
        numeric covariate compares with one of 0 and 1.
        """
        from privreg.results.plots import coefficients

        more: Any = {"intercept": intercept, "scaled": scaled, "simultaneous": simultaneous, "title": title, "ax": ax}
        axes: Any = coefficients.coefficients([self], terms, alpha=alpha, exponentiate=exponentiate, **more)
        return cast("Axes", axes)

    def plot_privacy(self, *, ax: Any = None) -> NDArray[Any]:
        """Draw the trade-off curve and the best attacker's ROC; the legend names the guarantee.

        They are drawn on `ax`, two Axes, or on a figure that is made; two Axes come back, see
        `privreg.results.plots.privacy.privacy_curve`. The figure is saved by ``axes[0].figure.savefig(path)``.
        """
        from privreg.results.plots.privacy import privacy_curve

        return privacy_curve(self.privacy, ax=ax)

    def __repr__(self) -> str:
        what = f"{len(self._fit.names)} coefficients"
        if self._fit.levels:
            what = f"{len(self._fit.design.names)} coefficients for each of {len(self._fit.levels) - 1} levels"
        return f"<{type(self).__name__}: {self._fit.family.name}, {what}, n = {self.nobs:,}, {self.privacy.short}>"

    # --- storage ---------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Save as one file of arrays and JSON, atomically. No rows, no keys.

        A name of a page, a text, a table or another program's file is refused; the message says how to write one.
        """
        archive.refuse_suffix(path)
        document, arrays = saving.parts(self._fit)
        archive.write_archive(path, self._kind, document, arrays)
