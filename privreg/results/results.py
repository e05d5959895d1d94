"""Results: statsmodels' names with private meanings, computed from reports and public state only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import pandas as pd

from privreg import evaluation
from privreg.errors import InferenceError, flag
from privreg.estimand import estimand
from privreg.families.family import Family, check_ratios
from privreg.families.measures import frame as measures_frame
from privreg.files import archive
from privreg.options.unknown import all_known_arguments
from privreg.results import saving, views
from privreg.results.data import ModelNames, ResultData
from privreg.results.postestimation.prediction import ClassPrediction, Prediction, check_which, predicted, with_errors
from privreg.results.postestimation.testing import TestedResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from privreg.results.summary import Summary

    Array = NDArray[np.float64]

__all__ = ["PrivateResults"]


@all_known_arguments
class PrivateResults(TestedResults):
    """Results of a private online regression.

    Parameters
    ----------
    fit : ResultData
        Frozen payload.
    """

    _fit: ResultData
    _kind: ClassVar = "results"  # Of its files

    @property
    def params_last(self) -> pd.Series | pd.DataFrame:
        """Last iterate in the user's units, shaped like :attr:`params` and noisier."""
        return self._fit.shaped(self._fit.last)

    @property
    def bse(self) -> pd.Series | pd.DataFrame:
        """Standard errors of the default method; √(6 V̂ / n) under random scaling, so that t reads as usual."""
        return self._fit.shaped(self._errors())

    @property
    def tvalues(self) -> pd.Series | pd.DataFrame:
        """Estimate over standard error."""
        return self._fit.shaped(self._ratios())

    @property
    def pvalues(self) -> pd.Series | pd.DataFrame:
        """Two-sided p-values of zero coefficients, exact for the method's limit law."""
        return self._fit.shaped(self._estimate().pivot.two_sided(self._ratios()))

    @property
    def nobs(self) -> int:
        """People who sent a report."""
        return self._fit.nobs

    @property
    def fit_measures(self) -> pd.DataFrame:
        """Measures of fit that people told privately, with ``fit(measures=0.05)``.

        Returns
        -------
        DataFrame
            measure, estimate, std_error, conf_low, conf_high (95%, normal), meaning.

        Raises
        ------
        InferenceError
            If none were asked for, or the records that tell them have not reported yet.
        """
        if not self._fit.measures:
            later = next((n for n in self.privacy.notes if n.code == "later"), None)
            raise InferenceError(
                f"{later}." if later is not None else "this fit released no measures of fit; fit with measures=0.05."
            )
        return measures_frame(self._fit.measures)

    @property
    def rounds(self) -> pd.DataFrame:
        """Rounds that records answered, one a row; no rows with ``tuning="published"``.

        Returns
        -------
        DataFrame
            round : int
                From 1, in the order in which states were published.
            role : str
                "location" (of columns whose scale is private), "moments", "pilot", "clamping" (of long streams),
                "main" or "measures".
            records : int
                Who were asked.
            reports : float
                Reports that came: as many, but for what is lost in `privreg.simulate`; records with budgets of their
                own count by their weight (μ_i/μ_max)².
            moved : float
                How far the round's reports moved the estimate: the largest change of a coefficient, in standard errors
                of these results' estimate by the default method. NaN where a round tells of no coefficient.
        """
        columns = ["round", "role", "records", "reports", "moved"]
        return pd.DataFrame(list(self._fit.rounds), columns=columns)

    def estimand(self, rows: Any = None) -> pd.Series | pd.DataFrame:
        """Solve this fit's own equation on *public or simulated* rows, without noise: what its intervals are for.

        Parameters
        ----------
        rows : DataFrame, mapping of arrays, path of a file, or (endog, exog) for array models
            With the response, and the columns of exposure, offset and personal budgets if the model has them; numbers
            are clamped to their declared bounds as in the fit. Nothing protects these rows.

        Returns
        -------
        Series
            Shaped and labelled like :attr:`params`: θ with Σ w_k n_kg E ω(z) z ψ_k(z'(θ + δ_kg), y) = 0, where ψ_k has
            the corner of round k, z are covariates by the row map that this run learned, δ_kg is the offset of group g,
            and w_k n_kg is what its reports weigh in the estimate.

        Notes
        -----
        Where the model is right and errors are symmetric, this is the truth up to the rows' own sampling error. Where
        it is wrong or errors are skewed, intervals cover these numbers, and another run, with another corner and other
        weights, targets others.

        Raises
        ------
        NotPrivateError
            If no rows are given, or they were fitted privately in this process (unless with a seed, in a simulation).
        InferenceError
            If the results hold no equation, or it has no root on these rows.
        DataError, SchemaError
            If the rows can't be used: they are public, so that a value that is missing or not declared is an error.
        """
        return self._fit.shaped(estimand(self._fit, rows))

    def evaluate(self, public_test: Any) -> pd.DataFrame:
        """Compare predictions with responses of a *public* test set, rows or a file; see `privreg.evaluation`."""
        return evaluation.evaluate(self._fit, public_test)

    def calibration(self, public_test: Any, groups: int = 10) -> pd.DataFrame:
        """Compare predicted with observed means by group on a *public* test set; see `privreg.evaluation`."""
        return evaluation.calibration(self._fit, public_test, groups)

    def plot_calibration(self, public_test: Any, groups: int = 10, *, ax: Any = None) -> Axes:
        """Draw observed against predicted means on a *public* test set.

        Parameters
        ----------
        public_test, groups
            As for :meth:`calibration`.
        ax : Axes, optional
            Where to draw; without it a figure is made.

        Returns
        -------
        Axes
            Whiskers are 95% intervals of the observed means. It is saved by ``axes.figure.savefig(path)``.
        """
        return evaluation.plot_calibration(self, public_test, groups, ax=ax)

    @property
    def methods(self) -> tuple[str, ...]:
        """Inference methods at hand; the first is the default."""
        return tuple(e.method for e in self._fit.estimates)

    @property
    def family(self) -> Family:
        """The family that was fitted."""
        return self._fit.family

    @property
    def model(self) -> ModelNames:
        """Public names: endog_names, exog_names (of all coefficients) and formula, as other libraries look for them."""
        fit = self._fit
        return ModelNames(str(fit.design.endog_name), list(fit.names), fit.design.formula)

    def cov_params(self, method: str | None = None) -> pd.DataFrame:
        """Covariance of the estimates on the scale of :attr:`bse`, DataFrame of shape (p, p).

        Of a multinomial fit rows and columns are labelled by (level, term), as in statsmodels' MNLogit.

        Raises
        ------
        InferenceError
            If the method was not asked for or keeps only variances.
        """
        return self._covariance(method)

    def conf_int(
        self, alpha: float = 0.05, cols: Any = None, *, method: str | None = None, simultaneous: bool = False
    ) -> pd.DataFrame:
        """Confidence intervals, one coefficient a row.

        Parameters
        ----------
        alpha : float
            One minus the level, in (0, 1); above 0.5 it warns that it may be the level itself.
        cols : list of str or int, optional
            Coefficients wanted; all by default. Of a multinomial fit they are called "level:term".
        method : str, optional
            An inference method of this fit; its first by default.
        simultaneous : bool
            Whether the intervals that are returned are to hold all together at that level; they are wider then, by
            the law of the largest t-ratio (see `privreg.inference.simultaneous`).

        Returns
        -------
        DataFrame
            Columns 0 and 1: lower and upper limit. Of a multinomial fit the index is (level, term) and the columns are
            "lower" and "upper", all as in statsmodels' MNLogit.

        Raises
        ------
        OptionError
            If `alpha` is not in (0, 1).
        InferenceError
            If the method was not asked for.

        Notes
        -----
        Anytime intervals cover more than their level at one look. Under published tuning all but random scaling are
        below their level on short streams; see benchmarks/validity.py and benchmarks/intervals.py.
        """
        at = np.arange(len(self._fit.names)) if cols is None else np.array(self._fit.places(cols), dtype=int)
        half = self._half(alpha, method, simultaneous, at)
        lower, upper = ("lower", "upper") if self._fit.levels else (0, 1)
        params, index = self._fit.params[at], self._fit.index[at]
        return pd.DataFrame({lower: params - half, upper: params + half}, index=index)

    def tidy(
        self,
        exponentiate: bool = False,
        *,
        alpha: float = 0.05,
        conf_level: float | None = None,
        method: str | None = None,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """Build the one table that every view renders.

        Parameters
        ----------
        exponentiate : bool
            Report exp(estimate) and exp(limits): odds ratios of Logistic, rate ratios of Poisson, relative risk ratios
            against the baseline of multinomial fits, and ratios of y where the response is ``np.log(y)``; the standard
            error stays that of the estimate itself.
        alpha : float
            One minus the level of the intervals.
        conf_level : float, optional
            Their level in place of `alpha`, as in R's broom.
        method : str, optional
        simultaneous : bool
            Whether the intervals of all coefficients are to hold together, as in :meth:`conf_int`; p-values stay those
            of each coefficient alone.

        Returns
        -------
        DataFrame
            term, estimate, std_error, statistic, p_value, conf_low, conf_high, reliable (whether no note of the summary
            takes the row back); before them the level for multinomial fits.

        Raises
        ------
        OptionError
            If coefficients are to be exponentiated that are no logs of ratios, or `alpha` is not in (0, 1).
        """
        flag("simultaneous", simultaneous)
        if flag("exponentiate", exponentiate):
            check_ratios(self._fit.family, self._fit.design.endog_name)
        alpha = views.alpha_of(alpha, conf_level)
        out = self._table(alpha, method, simultaneous)
        if exponentiate:
            with np.errstate(over="ignore"):  # exp of a wild estimate is inf, and means it
                for c in {"estimate", "conf_low", "conf_high"} & set(out):
                    out[c] = np.exp(out[c])
        return out

    def glance(self) -> pd.DataFrame:
        """One line about the whole fit, as R's broom has it, to be stacked with those of other fits.

        Returns
        -------
        DataFrame
            nobs, coefficients (how many), response, family, inference, guarantee (in words), mu (of this release),
            mu_total (of all releases from these data so far in this process), releases, epsilon (of this release at
            delta = 1e-6, or as asked of a pure budget), delta, private (False without noise, or with a seed), reliable
            (whether no note takes a row back); then each of :attr:`fit_measures`.
        """
        return views.glance(self)

    # --- predictions -----------------------------------------------------------------------------------

    def predict(self, exog: Any = None, *, which: str = "mean") -> pd.Series | pd.DataFrame:
        """Predict at new covariate values, on the response's scale.

        Parameters
        ----------
        exog : DataFrame, mapping of str to array, or array of shape (n, p) for array models
            Every value is needed. Nothing is clamped to the declared bounds; columns that lie outside are named in a
            warning. An offset that is left out is 0, an exposure 1.
        which : {"mean", "linear", "class"}
            "mean" is what the coefficients describe: the conditional mean (Huber, Squared), tau-quantile (Quantile) or
            tau-expectile (Expectile), the mean count at the row's exposure (Poisson), the probability of 1 or of the
            second level (Logistic), the probability of each level (Multinomial). For Hinge and SmoothedHinge it is the
            margin, which is no probability: its sign is the class, its size no measure of certainty.
            "linear" is the linear predictor.
            "class" is the likelier class, for Logistic, Multinomial and the hinges: the declared level, or 0/1 for a
            response without levels.

        Returns
        -------
        Series, shape (n,)
            For Multinomial a DataFrame: rows by levels, with "linear" without the baseline, whose predictor is 0.

        Notes
        -----
        Coefficients are private, so predictions at public covariate values are too. A prediction for somebody's own
        row is as secret as that row: it is computed from it without noise, and what the statement of privacy says
        does not cover it.

        Warns
        -----
        PrivregWarning
            If covariates lie outside their declared bounds; it names the columns.

        Raises
        ------
        OptionError
            If the family has no such predictions.
        UnsupportedArgumentError
            For arguments of other libraries; the message says what to write.
        NotPrivateError
            Without `exog`, or with rows that were fitted privately in this process (unless with a seed, in a
            simulation).
        DataError, SchemaError
            If the new rows can't be encoded.
        """
        which = check_which(which, self._fit.family)
        x, offset, index = self._exog(exog, "predict")
        return predicted(self._fit, x, offset, index, which)

    def get_prediction(self, exog: Any = None, *, method: str | None = None) -> Prediction | ClassPrediction:
        """Predictions with standard errors and confidence intervals of the mean.

        Parameters
        ----------
        exog
            As in :meth:`predict`.
        method : str, optional

        Returns
        -------
        Prediction
            predicted_mean, se_mean, conf_int(alpha), summary_frame(alpha), notes (which take limits back); "mean" is
            what :meth:`predict` gives. Limits are those of the linear predictor through the inverse link.
        ClassPrediction
            The same of a multinomial fit: probabilities, rows by levels; the frame is long, one line for each row and
            level. Limits are those of the logit of each probability, so that they stay in (0, 1).

        Notes
        -----
        Predictions for private rows are not protected; see :meth:`predict`. These are limits of the mean. There are no
        prediction intervals of single responses, which need their spread; fits with ``Quantile(0.025)`` and
        ``Quantile(0.975)``, two more releases, estimate such limits.

        Warns
        -----
        PrivregWarning
            As for :meth:`predict`.

        Raises
        ------
        InferenceError
            If the method was not asked for or keeps only variances.
        NotPrivateError, DataError, SchemaError
            As for :meth:`predict`.
        """
        x, offset, index = self._exog(exog, "get_prediction")
        cov, pivot = self._full_cov(method, "get_prediction")
        return with_errors(self._fit, x, offset, index, cov, pivot, self._doubts(method))

    # --- views -----------------------------------------------------------------------------------------

    def trajectory(self, alpha: float = 0.05, *, method: str | None = None) -> pd.DataFrame:
        """Estimates along the stream, at people counts that grow geometrically.

        Parameters
        ----------
        alpha : float
            One minus the level of the bands, pointwise.
        method : str, optional
            Method that the bands must be of; they are of one only, see below.

        Returns
        -------
        DataFrame
            term, n, estimate, low, high; before them the level for multinomial fits. The bands are those of anytime
            if it was asked for, else of sandwich, or of random scaling with published tuning; NaN where there are
            none, as before main rounds begin. Only those of anytime hold at all n at once.

        Raises
        ------
        InferenceError
            If the bands are not of `method`.
        """
        return views.trajectory(self._fit, alpha, method)

    def using(self, method: str) -> Self:
        """Return the same results with another of this fit's inference methods as the default of every view."""
        first = self._estimate(method)
        rest = tuple(e for e in self._fit.estimates if e is not first)
        return type(self)(replace(self._fit, estimates=(first, *rest)))

    def inference_table(self, alpha: float = 0.05) -> pd.DataFrame:
        """Compare the intervals of every inference method of this fit.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.

        Returns
        -------
        DataFrame
            One line for each method and coefficient: term, method, std_error, statistic, p_value, conf_low, conf_high,
            length, law (of the statistic) and note (whatever takes the interval back).
        """
        return views.inference_table(self, alpha)

    def plot_inference(self, *, alpha: float = 0.05, ax: Any = None) -> Axes:
        """Draw how long the intervals of every method are, relative to those of the first.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.
        ax : Axes, optional
            Where to draw; without it a figure is made.

        Returns
        -------
        Axes
            It is saved by ``axes.figure.savefig(path)``.
        """
        from privreg.results.plots.inference import lengths

        return lengths(self, alpha=alpha, ax=ax)

    def summary(
        self,
        alpha: float = 0.05,
        *,
        slim: bool = False,
        exponentiate: bool = False,
        title: str | None = None,
        method: str | None = None,
        simultaneous: bool = False,
    ) -> Summary:
        """Header, coefficients, the guarantee and notes, as text, HTML or LaTeX; :attr:`privacy` has the rest.

        Rows that should not be relied on are marked, and a line below the table names the notes that say why.

        Parameters
        ----------
        alpha : float
            One minus the level of the intervals.
        slim : bool
            A header of few entries, and only notes that weaken something.
        exponentiate : bool
            Show exp(coef) with its limits, as in :meth:`tidy`.
        title : str, optional
            Instead of "Private Online Regression Results".
        method : str, optional
            An inference method of this fit; its first by default.
        simultaneous : bool
            Whether all intervals are to hold together, as in :meth:`conf_int`.

        Returns
        -------
        Summary
            ``as_text()``, ``as_html()``, ``as_latex()``, ``as_markdown()``; ``tables`` has its parts as statsmodels'
            `SimpleTable`, the coefficients in ``tables[1]``.
        """
        from privreg.results.summary import summarise

        flag("slim", slim)
        more: Any = {"slim": slim, "exponentiate": exponentiate, "title": title}
        return summarise(self, alpha, method, simultaneous, **more)

    def plot_trajectory(
        self,
        terms: Any = None,
        *,
        alpha: float = 0.05,
        method: str | None = None,
        title: str | None = None,
        ax: Any = None,
    ) -> Axes | NDArray[Any]:
        """Draw estimates with their bands against the number of people.

        Parameters
        ----------
        terms : str or sequence of str, optional
            Coefficients wanted, or terms, such as a factor; all by default.
        alpha : float
            One minus the level of the bands.
        method : str, optional
            Method that the bands must be of; see :meth:`trajectory`.
        title : str, optional
            Above the figure.
        ax : Axes or sequence of Axes, optional
            One Axes for all terms, or one for each; without it a figure is made, with a panel a term.

        Returns
        -------
        Axes or ndarray of Axes
            Of one term, or of a single `ax`, one Axes; otherwise an array, one a term. A figure of several is saved by
            ``axes[0].figure.savefig(path)``.

        Raises
        ------
        OptionError
            If a term is not known, or `ax` has another number of axes than there are terms.
        InferenceError
            If the bands are not of `method`.
        """
        from privreg.results.plots import trajectory

        return trajectory.trajectory(self, terms, alpha=alpha, method=method, title=title, ax=ax)

    def plot_coef(
        self,
        terms: Any = None,
        *,
        alpha: float = 0.05,
        intercept: bool = False,
        scaled: bool = True,
        exponentiate: bool = False,
        simultaneous: bool = False,
        title: str | None = None,
        ax: Any = None,
    ) -> Axes:
        """Draw coefficients with their intervals.

        Parameters
        ----------
        terms : str or sequence of str, optional
            Coefficients wanted, or terms, such as a factor; all but the intercept by default.
        alpha : float
            One minus the level of the intervals.
        intercept : bool
            Whether to draw the intercept, which usually dwarfs all others.
        scaled : bool
            Draw what a public step of the covariate does, which stands after the row's name, so that rows can be
            compared; False draws coefficients as they are.
        exponentiate : bool
            Draw exp of them, on a logarithmic axis.
        simultaneous : bool
            Whether all intervals are to hold together, as in :meth:`conf_int`.
        title : str, optional
            Above the figure.
        ax : Axes, optional
            Where to draw; without it a figure is made.

        Returns
        -------
        Axes
            It is saved by ``axes.figure.savefig(path)``. More is in `privreg.results.plots.coefficients.coefficients`.

        Raises
        ------
        OptionError
            If coefficients are to be exponentiated that are no logs of ratios.
        """
        from privreg.results.plots import coefficients

        more: Any = {"intercept": intercept, "scaled": scaled, "simultaneous": simultaneous, "title": title, "ax": ax}
        axes: Any = coefficients.coefficients([self], terms, alpha=alpha, exponentiate=exponentiate, **more)
        return cast("Axes", axes)

    def plot_privacy(self, *, ax: Any = None) -> NDArray[Any]:
        """Draw the trade-off curve and the best attacker's ROC; the legend names the guarantee.

        Parameters
        ----------
        ax : sequence of two Axes, optional
            Where to draw; without it a figure is made.

        Returns
        -------
        ndarray of Axes, shape (2,)
            See `privreg.results.plots.privacy.privacy_curve`. The figure is saved by ``axes[0].figure.savefig(path)``.
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

        Raises
        ------
        SavedFileError
            If the folder is missing or not writable.
        UnsupportedArgumentError
            If the name is that of a page, a text, a table or another program's file; the message says how to write one.
        """
        archive.refuse_suffix(path)
        document, arrays = saving.parts(self._fit)
        archive.write_archive(path, self._kind, document, arrays)
