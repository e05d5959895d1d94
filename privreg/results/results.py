"""Results: statsmodels' names with private meanings, computed from reports and public state only."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base import archive
from privreg.collector.inference.methods import METHODS
from privreg.collector.inference.pivots import Normal
from privreg.collector.inference.resampling import FIRST, Anytime
from privreg.errors import InferenceError, OptionError, flag, interval_level, number
from privreg.families.family import Family, check_ratios
from privreg.families.measures import frame as measures_frame
from privreg.options.unknown import all_known_arguments
from privreg.privacy.ledger import REPORTED_DELTA
from privreg.results import adapters, saving
from privreg.results.base import Results
from privreg.results.data import Frame, ModelNames, ResultData, band
from privreg.results.plots.coefficients import plot_coef, plot_trajectory
from privreg.results.postestimation import penalties, terms
from privreg.results.postestimation.hypothesis import ContrastTest, WaldTest, contrast_test, wald_test
from privreg.results.postestimation.prediction import HazardPrediction, baseline, get_prediction, predicted
from privreg.results.summary import summary as one_screen
from privreg.results.windows import windows as of_stream


@all_known_arguments
class PrivateResults(Results):
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
        """Two-sided p-values of zero coefficients, exact for the method's limit distribution."""
        return self._fit.shaped(self._estimate().pivot.two_sided(self._ratios()))

    @property
    def nobs(self) -> int:
        """People who sent a report."""
        return self._fit.nobs

    @property
    def methods(self) -> tuple[str, ...]:
        """Inference methods at hand; the first is the default."""
        return tuple(e.method for e in self._fit.estimates)

    @property
    def df_resid_inference(self) -> float:
        """Degrees of freedom of the default method's t-ratios: infinite of normal ones, NaN if they are no t."""
        pivot = self._estimate().pivot
        return math.inf if isinstance(pivot, Normal) else float(getattr(pivot, "df", math.nan))

    @property
    def family(self) -> Family:
        """The family that was fitted."""
        return self._fit.family

    @property
    def model(self) -> ModelNames:
        """Public names: endog_names, exog_names (of all coefficients) and formula, as other libraries look for them."""
        fit = self._fit
        formula = dict(fit.title)["Formula"] if fit.cuts else fit.design.formula
        return ModelNames(str(fit.design.endog_name), list(fit.names), formula)

    def cov_params(self, method: str | None = None) -> pd.DataFrame:
        """Covariance of the estimates on the scale of :attr:`bse`, DataFrame of shape (p, p).

        Of a multinomial fit rows and columns are labelled by (level, term), as in statsmodels' MNLogit.
        """
        return self._covariance(method)

    def conf_int(
        self, alpha: float = 0.05, cols: Any = None, *, method: str | None = None, simultaneous: bool = False
    ) -> pd.DataFrame:
        """Confidence intervals, one coefficient a row.

        Columns 0 and 1: lower and upper limit. Of a multinomial fit the index is (level, term) and the columns are
        "lower" and "upper", all as in statsmodels' MNLogit. `cols` are the coefficients wanted ("level:term" of a
        multinomial fit), or terms; all by default. An `alpha` above 0.5 warns that it may be the level itself.
        `simultaneous` intervals hold all together; they are wider, by the distribution of the largest t-ratio (see
        `privreg.collector.inference.resampling`).

        Anytime intervals cover more than their level at one look; under published tuning all but random scaling cover
        less on short streams.
        """
        at = self._fit.places(cols) if cols is None or np.size(cols) else []
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

        term, estimate, std_error, statistic, p_value, conf_low, conf_high, reliable (whether no note of the summary
        takes the row back); before them the level for multinomial fits. `conf_level` is that of the intervals in place
        of `alpha`, as in R's broom; `simultaneous` is as in :meth:`conf_int`, and p-values stay those of each
        coefficient.

        `exponentiate` reports exp(estimate) and exp(limits): odds ratios of Logistic, rate ratios of Poisson, relative
        risk ratios against the baseline of multinomial fits, and ratios of y where the response is ``np.log(y)``. As in
        R's broom, std_error and statistic stay on the scale of logs, from which limits and p-values come;
        ``attrs["note"]`` says so.
        """
        flag("simultaneous", simultaneous)
        if flag("exponentiate", exponentiate):
            check_ratios(self._fit.family, self._fit.design.endog_name)
        if conf_level is not None:
            if alpha != 0.05:
                raise OptionError("give alpha= or conf_level=, which is one minus alpha, not both.")
            alpha = round(1.0 - number("conf_level", conf_level, "be a number in (0, 1), such as 0.95", high=1.0), 12)
        out = self._table(alpha, method, simultaneous)
        if exponentiate:
            with np.errstate(over="ignore"):  # exp of a wild estimate is inf, and means it
                for c in {"estimate", "conf_low", "conf_high"} & set(out):
                    out[c] = np.exp(out[c])
            out.attrs["note"] = "Note: std_error and statistic are on the scale of logs." * ("std_error" in out)
        return out

    def glance(self) -> pd.DataFrame:
        """One line about the whole fit, as R's broom has it, to be stacked with those of other fits.

        nobs, coefficients (how many), response, family, inference, guarantee (in words), mu (of this release), mu_total
        (of all releases from these data so far in this process), releases, epsilon (of this release at delta = 1e-6, or
        as asked of a pure budget), delta, private (False without noise, or with a seed), reliable (whether no note
        takes a row back); then each of :attr:`fit_measures`.
        """
        fit, stated = self._fit, self.privacy
        private, total, pure = stated.budget.private, stated.total, stated.total.pure
        line: dict[str, Any] = {
            "nobs": fit.nobs,
            "coefficients": len(fit.names),
            "response": dict(fit.title)["Dep. Variable"],
            "family": fit.family.name,
            "inference": METHODS[self.methods[0]].title if self.methods else "none",
            "guarantee": stated.short,
            "mu": stated.total_mu,
            "mu_total": stated.release.total_mu if stated.release.number else stated.total_mu,
            "releases": max(stated.release.number, 1),
            "epsilon": math.inf if not private else total.epsilon if pure else total.epsilon_at(REPORTED_DELTA),
            "delta": REPORTED_DELTA if private and not pure else 0.0,
            "private": private and not stated.seeded,
            "reliable": bool(self._table()["reliable"].all()),
        }
        line |= {m.name: m.estimate for m in fit.measures}
        return Frame([line])

    # --- tests -----------------------------------------------------------------------------------------

    wald_test_terms, t_test_pairwise = terms.wald_test_terms, terms.t_test_pairwise
    reference_grid, select, smooth = terms.reference_grid, penalties.select, penalties.smooth

    def t_test(self, r_matrix: Any, *, method: str | None = None) -> ContrastTest:
        """Test linear combinations one by one.

        effect, sd, tvalue, pvalue of shape (q,), conf_int(alpha), summary_frame(); both take simultaneous=True.

        `r_matrix` is as in statsmodels a string, ``"age = bmi"`` or ``"age - bmi, smoker[T.yes] = 0"``, an array of
        shape (q, p), or (array, values). Coefficients of a multinomial fit are called "level:term", and come level by
        level in an array. The name of a term, such as "C(region)" or "region", is all its coefficients, and so are
        several such names, ``"smoker, region"`` or a list. Names that begin with an operator or a bracket need the
        array.
        """
        return contrast_test(self._known(method, "t_test"), r_matrix)

    def wald_test(self, r_matrix: Any, *, method: str | None = None) -> WaldTest:
        """Test linear restrictions, written as in :meth:`t_test`, jointly, exactly for the method's limit distribution.

        WaldTest with statistic (formed with :meth:`cov_params`), pvalue, df_num, fvalue, df_denom, and ``citation`` as
        reports have it. Redundant restrictions, or too many for random scaling's updates, are an InferenceError.
        """
        return wald_test(self._known(method, "wald_test"), r_matrix)

    def anova(self, *, method: str | None = None) -> pd.DataFrame:
        """Test each term but the intercept, given all others (type III by the Wald test).

        One line a term, its name as index: df, df_denom, chi2 (the Wald statistic), F, PR(>F), reliable (whether no
        note of the summary takes a coefficient of it back). df_denom is infinite under normal limits and Hotelling's
        under Student's t; it and F are NaN under distributions that are no F, whose p-values are exact all the same.
        There are no sums of squares, which would need every residual. With interactions a test of a main effect depends
        on how factors are coded; `privreg.anova` tests nested fits.
        """
        return terms.wald_test_terms(self, method=method).anova()

    # --- predictions -----------------------------------------------------------------------------------

    def predict(self, exog: Any = None, *, which: str = "mean") -> pd.Series | pd.DataFrame:
        """Predict at new covariate values, on the response's scale.

        For Multinomial a DataFrame: rows by levels, with "linear" without the baseline, whose predictor is 0. For
        ``Surv()`` one, rows by cut points: survival, or with "linear" log hazards until then.

        Parameters
        ----------
        exog : DataFrame, mapping of str to array, or array of shape (n, p) for array models
            Or a table of polars or Arrow; with the model's offset and exposure, of array models as ``(exog, offset,
            exposure)``. A row that can't be used has NaN as its prediction. Nothing is clamped to the declared bounds;
            columns outside them, or with values that can't be read, are named in a PrivregWarning, and a missing one is
            a DataError.
        which : {"mean", "linear", "class"}
            "mean" is what the coefficients describe: the conditional mean (Huber, Squared), tau-quantile or
            tau-expectile, the mean count at the row's exposure (Poisson), the probability of 1 or of the second level
            (Logistic), of each level (Multinomial), or the margin, which is no probability (hinges). "class" is the
            likelier class, for Logistic, Multinomial and the hinges: the declared level, or 0/1. A family without such
            predictions is an OptionError.

        Notes
        -----
        Coefficients are private, so predictions at public covariate values are too. A prediction for somebody's own row
        is as secret as that row: it is computed from it without noise, and what the statement of privacy says does not
        cover it. Rows that were fitted privately in this process are a NotPrivateError, unless with a seed.
        """
        return predicted(self, exog, which)

    get_prediction, for_marginaleffects = get_prediction, adapters.for_marginaleffects

    def stacked(self) -> adapters.Stacked:
        """Coefficients in one list, for tables of other libraries such as statsmodels' ``summary_col``.

        Of a multinomial fit, whose coefficients are a table, they are called "level:term".
        """
        return adapters.Stacked(self)

    @property
    def __maketables_coef_table__(self) -> pd.DataFrame:
        """Coefficients under maketables' names: b, se, t, p, and limits of 95 and 90%."""
        one = self.stacked()
        columns = {"b": one.params, "se": one.bse, "t": one.tvalues, "p": one.pvalues}
        for name, alpha in (("95", 0.05), ("90", 0.1)):
            columns |= dict(zip((f"ci{name}l", f"ci{name}u"), one.conf_int(alpha).to_numpy().T, strict=True))
        return pd.DataFrame(columns).rename_axis("Coefficient")

    @property
    def __maketables_depvar__(self) -> str:
        return str(self._fit.design.endog_name)

    def __maketables_stat__(self, key: str) -> Any:
        """Lines that maketables prints below the coefficients; None where rows would be needed."""
        return {"N": self.nobs, "se_type": METHODS[self.methods[0]].title if self.methods else None}.get(key)

    def design_matrix(self, exog: Any = None) -> pd.DataFrame:
        """Rows of the design at new public covariate values, as other libraries' tools need them.

        One column for each coefficient, of a multinomial fit for each of one level; rows that can't be used are NaN.
        Times :attr:`params` it is the linear predictor without its offset or exposure.
        """
        x, _, index = self._exog(exog, "design_matrix")
        return pd.DataFrame(x, index=index, columns=list(self._fit.design.names))

    def hazards(self, new: Any = None, *, method: str | None = None) -> HazardPrediction:
        """Hazards by interval, and survival curves, of a fit of ``Surv(time, event, [cuts])``.

        `new` has *public* values of covariates, as in :meth:`predict`; without it they are baseline hazards, of people
        whose numbers are 0 and whose factors have their first level. Of one ``cause=`` survival is that of people who
        have no other. HazardPrediction has ``frame(alpha)``, ``plot()`` and ``notes``, which take limits back.
        """
        if not (j := len(self._fit.cuts)):
            raise InferenceError("this fit has no hazards; fit 'Surv(time, event, [6, 12, 24]) ~ …'.")
        x, index = baseline(self._fit), pd.Index(["baseline"])
        if new is not None:
            x, _, index = self._exog(new, "hazards")
            index = index[::j]
        return HazardPrediction(self._known(method, "hazards"), x.reshape(-1, j, x.shape[1]), index)

    def trajectory(self, alpha: float = 0.05, *, method: str | None = None) -> pd.DataFrame:
        """Estimates along the stream, at people counts that grow geometrically.

        term, n, estimate, low, high; before them the level for multinomial fits. Bands are pointwise, NaN where there
        are none, as before main rounds begin: those of anytime if it was asked for, which alone hold at all n at once,
        else of sandwich, or of random scaling with published tuning. Another `method` is an InferenceError.
        """
        fit, name = self._fit, band(self._fit, method)
        m, p = fit.trail_params.shape
        estimate, critical = fit.trail_params.reshape(-1), np.array(np.nan)
        if name == "anytime":
            at = fit.trail_senders
            each = [Anytime(int(k)).critical(interval_level(alpha)) if k >= FIRST else np.nan for k in at]
            critical = np.repeat(each, p)
        elif name is not None:
            critical = np.asarray(self._estimate(name).pivot.critical(interval_level(alpha)))
        half = critical * np.sqrt(fit.trail_variances.reshape(-1))
        n = np.repeat(fit.trail_n, p)
        return Frame(fit.labels(m).assign(n=n, estimate=estimate, low=estimate - half, high=estimate + half))

    def using(self, method: str) -> Self:
        """Return the same results with another of this fit's inference methods as the default of every view."""
        first = self._estimate(method)
        rest = tuple(e for e in self._fit.estimates if e is not first)
        return type(self)(replace(self._fit, estimates=(first, *rest)))

    # --- the fit ---------------------------------------------------------------------------------------

    @property
    def fit_measures(self) -> pd.DataFrame:
        """Measures of fit that people reported privately, with ``fit(measures=0.05)``.

        measure, estimate, std_error, conf_low, conf_high (95%, normal), meaning; the first is the dispersion of
        ``NegativeBinomial()`` or the sd of ``Tobit()``, which all their fits have. An InferenceError if none were asked
        for, or the records that tell them have not reported yet.
        """
        if not self._fit.measures:
            asked = self._measured_by()
            why = f"this fit released no measures of fit{f'; {asked} asks for them' if asked else ', and none can'}"
            raise InferenceError(f"{next((n for n in self.privacy.notes if n.code == 'later'), why)}.")
        return Frame(measures_frame(self._fit.measures))

    def _measured_by(self) -> str:
        fit: Any = self.__dict__.get("_fit")
        if fit is None or fit.statement.trust != "devices":
            return "" if fit is not None and fit.cuts else super()._measured_by()
        return "" if fit.statement.operators else "measures: 0.05 in the study's file"

    @property
    def rounds(self) -> pd.DataFrame:
        """Rounds that records answered, one a row; no rows with ``tuning="published"``.

        round (from 1, as states were published); role ("location" of columns whose scale is private, "moments",
        "pilot", "clamping" of long streams, "main" or "measures"); records (who were asked); reports (that came, each
        with weight (μ_i/μ_max)² of its own budget); moved (largest change of a coefficient by the round's reports, in
        standard errors of these results; NaN where a round tells of no coefficient).
        """
        return Frame(list(self._fit.rounds), columns=["round", "role", "records", "reports", "moved"])

    def estimand(self, rows: Any = None) -> pd.Series | pd.DataFrame:
        """Solve this fit's own equation on *public or simulated* rows, without noise: what its intervals are for.

        Shaped and labelled like :attr:`params`: θ with Σ w_k n_kg E ω(z) z ψ_k(z'(θ + δ_kg), y) = 0, where ψ_k has the
        threshold of round k, z are covariates by the row map that this run learned, δ_kg is the offset of group g, and
        w_k n_kg is what its reports weigh in the estimate.

        `rows` are a DataFrame, mapping of arrays, path of a file, or (endog, exog) for array models, with the response,
        and the columns of exposure, offset, personal budgets, `id` and `weights` where there are any (of several rows
        of a person the first `k_max` count); numbers are clamped to their declared bounds as in the fit. Nothing
        protects these rows. A value that is missing or not declared is an error; rows that were fitted privately in
        this process are a NotPrivateError, unless with a seed.

        Where the model is right and errors are symmetric, this is the truth up to the rows' sampling error. Where it is
        wrong or errors are skewed, intervals cover these numbers, and another run targets others. Of several roots that
        is returned which steps from the estimate reach, or of multinomial fits and ``Poisson(c=)`` from the
        likelihood's; with a PrivregWarning where a convex loss has minima farther apart than a quarter of c. Results
        without an equation, as a curator's descent's, or whose equation has no root there, are an InferenceError.
        """
        from privreg.doors.estimand import estimand  # it plays rows, and takes results

        return self._fit.shaped(estimand(self._fit, rows))

    def evaluate(self, public_test: Any) -> pd.DataFrame:
        """Compare predictions with responses of a *public* test set, which are used as they are.

        measure, value. By family: mean, squared and absolute errors and R²; log-loss, accuracy and Brier score; mean
        deviance; check loss and the share below the line; hinge loss and accuracy.

        `public_test` is a DataFrame, mapping of arrays, path of a CSV file, or (endog, exog) for array models, with the
        response; numbers are clamped to their declared bounds as in the fit.
        """
        from privreg.doors.estimand import evaluated

        return evaluated(self._fit, public_test)

    plot_coef, plot_trajectory, summary, windows = plot_coef, plot_trajectory, one_screen, of_stream

    # --- views -----------------------------------------------------------------------------------------

    def plot_privacy(self, *, ax: Any = None) -> NDArray[Any]:
        """Draw the trade-off curve and the best attacker's ROC on two Axes, which come back.

        See `privreg.results.plots.privacy.privacy_curve`; ``axes[0].figure.savefig(path)`` saves the figure.
        """
        from privreg.results.plots.privacy import privacy_curve

        return privacy_curve(self.privacy, ax=ax)

    def __repr__(self) -> str:
        fit, of = self._fit, f" for each of {len(self._fit.levels) - 1} levels" if self._fit.levels else ""
        what = f"{fit.family.name}, {len(fit.design.names)} coefficients{of}"
        return f"<{type(self).__name__}: {what}, n = {self.nobs:,}, {self.privacy.short}>"

    # --- storage ---------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write to one file, atomically: arrays and JSON, no rows, no keys; names of other kinds are refused."""
        archive.refuse_suffix(path)
        document, arrays = saving.parts(self._fit)
        archive.write_archive(path, self._kind, document, arrays)
