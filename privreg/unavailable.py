"""What statsmodels, R and scikit-learn offer under other names, or privacy can't: each with what to use instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from privreg.errors import NotPrivateError, nearest
from privreg.options.unknown import COV, INTERVALS

__all__ = ["called", "needs_rows", "no_rows_in", "no_such_name", "not_fitted", "public_names", "unavailable"]

_TOLD: Final = ("fit_measures", "fit(measures=0.05) releases a private one, in res.fit_measures")
_SHARE: Final = (
    "fit_measures",
    "fit(measures=0.05) releases a private share of it that is explained, in res.fit_measures",
)
_TESTED: Final = ("evaluate", "res.evaluate(public_test) measures fit on public rows")
_ERRORS: Final = ("evaluate", "res.evaluate(public_test) compares predictions with responses of public rows")
_PREDICT: Final = ("predict", "use res.predict() with public covariate values")
_SCALE: Final = (
    "fit_measures",
    "fit(measures=0.05) releases a private one, in res.fit_measures, and Huber(scale=) declares a public one",
)
_EFFECTS: Final = ("marginal_effects", "use res.marginal_effects(at) with public rows")
_CLASSES: Final = ("predict", "use res.predict(new, which='class') on a public test set")
_NESTED: Final = (
    "wald_test",
    "res.anova() and res.wald_test() test terms, and res.evaluate(public_test) compares models on public rows",
)
_SLOPES: Final = ("wald_test", "res.wald_test(['x1', 'x2']), with all terms in the list, tests the same")
_RELATED: Final = ("cov_params", "res.cov_params() shows how the errors of coefficients are related")

_INSTEAD: Final[dict[str, tuple[str, tuple[tuple[str, str], ...]]]] = {
    "resid": ("residuals are raw data", (_ERRORS, _PREDICT)),
    "fittedvalues": ("fitted values are raw data", (_PREDICT,)),
    "rsquared": ("it needs every residual", (_TOLD, _TESTED)),
    "deviance": ("the deviance needs every record", (_SHARE, _TESTED)),
    "llf": ("the likelihood needs every record", (_NESTED,)),
    "fvalue": ("its sums of squares need every residual", (_SLOPES,)),
    "scale": ("the residual scale needs every residual", (_SCALE, _TESTED)),
    "get_margeff": ("effects averaged over the people fitted need every row", (_EFFECTS,)),
    "pred_table": ("a table of predictions needs every response", (_CLASSES,)),
    "HC0_se": ("it needs every residual", (("methods", COV),)),
    "leverage": ("it is made of the covariates as they are, which are raw data", (_RELATED,)),
}
"""Why a name can't be had, and what there is in its place, the first that the results have."""

_SAME: Final = {
    name: key
    for key, names in {
        "resid": "residuals rstandard rstudent plot_resid influence cooks_distance dfbetas dfbeta dffits qqplot "
        "durbin_watson jarque_bera resid_pearson resid_response resid_deviance resid_dev resid_working "
        "resid_generalized "
        "resid_anscombe resid_anscombe_scaled resid_anscombe_unscaled sresid wresid get_influence outlier_test "
        "outliers_ resid_misclassified plot_diagnostics plot_added_variable plot_partial_residuals "
        "plot_ceres_residuals plot_residuals",
        "fittedvalues": "fitted fitted_values augment",
        "rsquared": "rsquared_adj r_squared adj_r_squared r2 r2_score R2 rsq Rsquared R_squared prsquared "
        "pseudo_rsquared ssr sse rss RSS tss ess mse rmse RMSE "
        "mse_resid mse_model mse_total centered_tss uncentered_tss score score_ accuracy",
        "deviance": "null_deviance pearson_chi2 null chisq",
        "scale": "scale_ sigma bandwidth sparsity",
        "get_margeff": "margeff",
        "pred_table": "confusion_matrix roc_auc",
        "HC0_se": "cov_HC0 cov_HC1 cov_HC2 cov_HC3 get_robustcov_results",
        "leverage": "vif VIF variance_inflation_factor model_matrix eigenvals condition_number singular_ rank rank_ "
        "qr effects get_hat_matrix_diag "
        "hatvalues im_ratio",
        "fvalue": "f_pvalue f_statistic fstatistic",
        "llf": "aic bic AIC BIC logLik loglik loglike lrtest llnull llr llr_pvalue bic_llf aicc "
        "bic_deviance llf_scaled info_criteria score_test el_test conf_int_el",
    }.items()
    for name in names.split()
}
_CALLED: Final = {
    name: right
    for right, names in {
        "params": "coef coef_ coefs coefs_ coefficients beta betas estimate estimates intercept intercept_ slope theta",
        "bse": "HC1_se HC2_se HC3_se bse_robust se std_err std_error std_errors stderr standard_error "
        "standard_errors std",
        "tvalues": "t tvalue tstat tstats t_stat t_values zvalues z_values statistic",
        "pvalues": "p pvalue pvals p_value p_values",
        "conf_int()": "confint ci conf_ints confidence_interval confidence_intervals intervals interval fit_interval "
        "fit_intervals conf_interval confidence_int confint_default confint2 Confint",
        "cov_params()": "cov vcov vcovHC sandwich cov_params_default normalized_cov_params bcov_scaled bcov_unscaled",
        "nobs": "n N n_obs n_samples",
        "tidy()": "broom coef_table table to_frame frame summary_frame",
        "tidy().to_csv(path)": "to_csv as_csv to_excel",
        "tidy(exponentiate=True)": "odds_ratio odds_ratios exp_coef exp rate_ratios",
        "summary()": "summary2 summary_ print coeftest",
        "glance()": "performance model_performance",
        "summary().as_latex()": "to_latex as_latex latex xtable",
        "summary().as_html()": "to_html as_html",
        "summary().as_markdown()": "to_markdown as_markdown",
        "anova()": "Anova anova_lm drop1 aov f_oneway oneway_test chisq_test chi2_contingency",
        "wald_test('x1 = 0, x2 = 0')": "f_test waldtest linearHypothesis linear_hypothesis linear_hypotheses lht",
        "t_test_pairwise('factor')": "TukeyHSD tukeyhsd tukey_hsd pairwise_tukeyhsd",
        "marginal_means('factor').pairwise()": "pairs",
        "marginal_effects(at)": "margins marginaleffects slopes avg_slopes comparisons avg_comparisons",
        "get_prediction(new)": "predictions avg_predictions ggpredict ggeffect ggemmeans predict_response",
        "marginal_means('factor')": "emmeans marginalmeans lsmeans",
        "t_test('x1 = x2')": "contrast glht multcomp lincom",
        "t_test('group[T.b] = 0')": "ttest ttest_ind prop_test proportions_ztest",
        "plot_coef()": "plot coefplot",
        "predict(new)": "predict_proba predict_log_proba get_distribution",
        "predict(new, which='linear')": "decision_function linear_predictor",
        "privacy": "epsilon delta rho budget guarantee ledger",
        "trajectory()": "history fit_history trace path",
        "methods": "inference inference_methods",
        "params.index": "feature_names_in_ n_features_in_ exog_names names",
    }.items()
    for name in names.split()
}
"""Other libraries' names of what there is."""

_ONE_PASS: Final = "there is one pass over the people, and nothing iterates until it converges"
_MODEL: Final = "results hold neither the model nor rows, only its names in model; keep the model that you fitted"
_KNOBS: Final = "it belongs to the workings of statsmodels and scikit-learn, and nothing here stands for it"
_AGAIN: Final = (
    "for another formula write from_formula() anew, and for more people stream = model.start(), then "
    "stream.update(rows)"
)
_REDRAWN: Final = (
    "rows can't be drawn again; fit(tuning='published', inference='block_bootstrap') resamples the path of the fit"
)
_TABLES: Final = "summary_col stargazer Stargazer modelsummary texreg screenreg htmlreg etable esttab huxreg outreg"
_SEARCH: Final = "each model that a search tries is another release; anova() of a fit tests every term of it"
_ELSEWHERE: Final = {
    name: why
    for why, names in {
        COV: "cov_type cov_kwds use_t",
        "the limit laws have no residual degrees of freedom; see nobs": "df_resid df_residual k_constant",
        "res.params has a number for each coefficient, so that res.params.size counts them": "df_model k_params",
        _ONE_PASS: "converged iterations n_iter_ mle_retvals mle_settings fit_options method",
        _MODEL: "formula data terms call fit xlevels contrasts classes_ refit",
        _AGAIN: "update",
        _REDRAWN: "boot bootstrap Boot boot_ci",
        "nested fits are tested by privreg.anova(small, large)": "compare_f_test compare_lr_test compare_lm_test",
        "every record has the same weight, but for budgets of people's own": "weights",
        _KNOBS: "C alpha class_weight copy_X dual densify sparsify fit_intercept intercept_scaling l1_ratio max_iter "
        "n_jobs penalty positive random_state solver tol verbose warm_start get_params set_params get_metadata_routing "
        "set_fit_request set_score_request set_callbacks set_null_options initialize remove_data q",
        "the budget is in privacy, and fitted values, which are called so elsewhere, are raw data": "mu",
        "saved results are read by privreg.load(path)": "load",
        "several fits stand side by side in privreg.compare([res1, res2])": _TABLES,
        _SEARCH: "step stepAIC stepwise dredge regsubsets",
        INTERVALS: "predict_interval prediction_interval pred_interval",
    }.items()
    for name in names.split()
}
"""Names of which there is nothing, with the reason."""

_MODELS: Final = {
    "pr.Huber()": "OLS ols RLM rlm WLS wls GLS gls LinearRegression HuberRegressor lm Gaussian",
    "pr.Logistic()": "Logit logit Probit probit LogisticRegression Binomial",
    "pr.Multinomial()": "MNLogit mnlogit multinom",
    "pr.Poisson(y_max=20)": "poisson NegativeBinomial negativebinomial PoissonRegressor",
    "pr.Quantile(0.5)": "QuantReg quantreg QuantileRegressor rq median quantile percentile",
    "pr.Hinge()": "SVC LinearSVC svm",
    "pr.Logistic() (or pr.Poisson(y_max=20), pr.Huber())": "GLM glm",
}
"""Models elsewhere, by the family that stands for them."""

_FUNCTIONS: Final = {
    "plan(formula, effect={'x': 0.1}, power=0.8, ...)": "power pwr sample_size TTestPower FTestPower",
    "compare([res1, res2])": _TABLES,
    "anova(small, large)": "anova_lm waldtest lrtest",
    "means.estimate(data, 'x ~ 1', ...)": "mean proportion describe summarize summarise value_counts",
    "means.estimate(data, 'y ~ group', ...)": "crosstab pivot_table groupby xtabs tapply",
    "PrivateOnlineRegression.from_formula(formula, data, ...)": "from_formula formula fit regression Regression "
    "LinearModel smf sm api",
}
"""Functions elsewhere, by ours."""

_ABSENT: Final = {
    _AGAIN: "update",
    _REDRAWN: "boot bootstrap Boot",
    _SEARCH: "step stepAIC stepwise dredge regsubsets",
    "there are no random effects; id= of a model declares which rows are one person's": "MixedLM mixedlm lmer glmer "
    "lme GEE gee",
    "there are no tests of ranks; family=pr.Quantile(0.5) compares medians": "wilcox_test wilcoxon ranksums "
    "mannwhitneyu kruskal kruskal_test",
    "there are no models of survival times": "PHReg phreg coxph Surv survreg CoxPHFitter",
    "smooth terms are splines in the formula, such as bs(x, knots=[...], lower_bound=..., upper_bound=...)": "gam GAM "
    "GLMGam",
    "a formula model reads a file itself: from_formula(formula, 'people.csv', ...)": "read_csv read_parquet read_table",
}
"""Functions elsewhere that there are none of, by what to do."""


def called(name: str) -> str | None:
    """What another library's name is called here; None if it is not such a name.

    Examples
    --------
    >>> called("coef_"), called("confint"), called("resid")
    ('params', 'conf_int()', None)
    """
    return _CALLED.get(name)


def needs_rows(name: str) -> bool:
    """Whether a name of statsmodels or R stands for something made of the raw rows."""
    return name in _INSTEAD or name in _SAME


def unavailable(name: str, have: Collection[str], *, measures: bool = True) -> AttributeError:
    """Error for an attribute that results don't have: what it is called here, or why it can't be had.

    Parameters
    ----------
    name : str
    have : collection of str
        Names that the results have; no others are suggested.
    measures : bool
        Whether their fit takes ``measures=``.
    """
    right = called(name)
    if right is not None and re.split(r"\W", right)[0] in have:
        return AttributeError(f"results have no {name!r}; it is called {right}.")
    if name in _ELSEWHERE:
        return AttributeError(f"results have no {name!r}: {_ELSEWHERE[name]}.")
    if needs_rows(name):
        return NotPrivateError(f"{name!r} is not private: {_needed(name, _had(have, measures))}.")
    near = None if name.startswith("_") else nearest(name, [n for n in have if n[:1] != "_"])
    return AttributeError(
        f"results have no attribute {name!r}; {'see dir(res).' if near is None else f'did you mean {near!r}?'}"
    )


def _had(names: Iterable[str], measures: bool) -> set[str]:
    return set(names) - (set() if measures else {_TOLD[0]})


def _needed(name: str, have: Collection[str] | None = None) -> str:
    """Why a name that needs rows can't be had, and the first there is in its place."""
    why, ways = _INSTEAD[_SAME.get(name, name)]
    return next((f"{why}; {text}" for attribute, text in ways if have is None or attribute in have), why)


def not_fitted(name: str, model: type, results: type, *, measures: bool = True) -> AttributeError:
    """Error for an attribute that a model doesn't have: what its results have, or the nearest there is.

    Parameters
    ----------
    name : str
    model, results : type
        Classes of the model, and of what its fits return.
    measures : bool
        Whether its fits take ``measures=``.
    """
    head, public = f"a model has no {name!r}", not name.startswith("_")
    have = _had(dir(results), measures)
    right = called(name)
    if name in have:
        right = f"{name}()" if callable(getattr(results, name)) else name
    if name == "update":
        return AttributeError(f"{head}: {_AGAIN}.")
    if public and right is not None and re.split(r"\W", right)[0] in have:
        return AttributeError(f"{head} before it is fitted: res = model.fit(), then res.{right}.")
    if needs_rows(name):
        return AttributeError(f"{head}: {_needed(name, have)}.")
    if name in _ELSEWHERE and _ELSEWHERE[name] != _MODEL:
        return AttributeError(f"{head}: {_ELSEWHERE[name]}.")
    near = nearest(name, [n for n in dir(model) if n[:1] != "_"]) if public else None
    return AttributeError(f"{head}; {'see dir(model).' if near is None else f'did you mean {near!r}?'}")


def no_rows_in(name: str) -> AttributeError:
    """Error for an attribute of a fitted model that results, which keep its names only, can't have."""
    if name in ("data", "endog", "exog", "exposure", "offset", "weights", "wendog", "wexog"):
        return NotPrivateError(
            f"res.model has no {name!r}: rows are private, and results keep names only, endog_names, exog_names and "
            "formula."
        )
    return AttributeError(
        f"res.model has no {name!r}: results keep only endog_names, exog_names and formula; keep the model that you "
        "fitted."
    )


def public_names(module: str, names: Iterable[str]) -> tuple[Callable[[], list[str]], Callable[[str], Any]]:
    """``__dir__`` and ``__getattr__`` of a module that shows `names` only, and says which of them was meant.

    Examples
    --------
    >>> shown, told = public_names("privreg.families", ["Huber", "Logistic"])
    >>> shown(), str(told("Binomial"))
    Traceback (most recent call last):
        ...
    AttributeError: privreg.families has no 'Binomial'; it is called pr.Logistic().
    """
    known = sorted(names)

    def told(name: str) -> Any:
        family = _family(name)
        near = None if name.startswith("_") else nearest(name, known)
        if family is not None and module == "privreg.families":
            fix = f"it is called {family}."
        else:
            fix = f"see dir({module})." if near is None else f"did you mean {near!r}?"
        raise AttributeError(f"{module} has no {name!r}; {fix}")

    return lambda: list(known), told


def _family(name: str) -> str | None:
    """The family that stands for a model elsewhere."""
    return next((f for f, names in _MODELS.items() if name in names.split()), None)


def no_such_name(name: str, known: Iterable[str]) -> AttributeError:
    """Error for a name that the package doesn't have: what to write for a model of statsmodels, R or scikit-learn."""
    family = _family(name)
    if family is not None:
        return AttributeError(
            f"privreg has no {name!r}: write PrivateOnlineRegression.from_formula(formula, data, family={family}, "
            "mu=1, ...), or PrivateOnlineRegression(endog, exog, ...) for arrays."
        )
    ours = next((f for f, names in _FUNCTIONS.items() if name in names.split()), None)
    if ours is not None:
        return AttributeError(f"privreg has no {name!r}; it is called privreg.{ours}.")
    absent = next((why for why, names in _ABSENT.items() if name in names.split()), None)
    if absent is not None:
        return AttributeError(f"privreg has no {name!r}: {absent}.")
    if needs_rows(name):
        return AttributeError(f"privreg has no {name!r}: {_needed(name)}.")
    right = called(name) or next((r for r in _CALLED.values() if re.split(r"\W", r)[0] == name), None)
    if right is not None:
        return AttributeError(f"privreg has no {name!r}; after res = model.fit(), write res.{right}.")
    near = None if name.startswith("_") else nearest(name, known)
    hint = "" if near is None else f"; did you mean {near!r}?"
    return AttributeError(f"module 'privreg' has no attribute {name!r}{hint}")
