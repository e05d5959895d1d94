"""What statsmodels offers and privacy can't: each name with its private alternative."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from privreg.errors import NotPrivateError, UnsupportedArgumentError

__all__ = ["no_such_name", "refuse_arguments", "unavailable"]

_INSTEAD: Final = {
    "resid": "residuals are raw data; look at predict() on public covariate values",
    "fittedvalues": "fitted values are raw data; use predict(new) with public covariate values",
    "rsquared": "R² needs every residual; fit(measures=0.05) releases a private one, in res.fit_measures",
    "deviance": "the deviance needs every record; fit(measures=0.05) releases a private share of it that is explained, "
    "in res.fit_measures",
    "llf": "the likelihood needs every record; compare models by wald_test() of nested restrictions",
    "scale": "the residual scale needs every residual; fit(measures=0.05) releases a private one, in res.fit_measures, "
    "and Huber(scale=) declares a public one",
    "get_margeff": "effects averaged over the people fitted need every row; use marginal_effects(at) with public rows",
    "pred_table": "a table of predictions needs every response; use predict(new, which='class') on a public test set",
    "df_resid": "the limit laws have no residual degrees of freedom; see nobs",
}
_SAME: Final = {
    name: key
    for key, names in {
        "resid": "resid_pearson resid_response resid_deviance wresid get_influence outlier_test weights",
        "fittedvalues": "mu fitted",
        "rsquared": "rsquared_adj prsquared pseudo_rsquared ssr ess mse_resid mse_model mse_total centered_tss "
        "uncentered_tss",
        "deviance": "null_deviance",
        "get_margeff": "margeff",
        "pred_table": "resid_misclassified",
        "llf": "aic bic llnull llr llr_pvalue fvalue f_pvalue bic_llf info_criteria compare_f_test compare_lr_test "
        "compare_lm_test",
        "df_resid": "df_model",
        "cov": "bse_robust HC0_se HC1_se HC2_se HC3_se get_robustcov_results",
    }.items()
    for name in names.split()
}
_PREDICTIONS: Final = {
    **dict.fromkeys(("offset", "exposure"), "It goes with the new rows: a column, or (exog, offset) for arrays"),
    **dict.fromkeys(("transform", "row_labels"), "New rows go through the formula and keep their index"),
    **dict.fromkeys(("newdata", "new_data", "data", "X"), "The new rows come first, or as exog="),
}
_OF_PREDICTIONS: Final = {
    "predict": {
        **_PREDICTIONS,
        **dict.fromkeys(("type", "kind", "linear"), "Give which='mean' (the default), 'linear' or 'class'"),
        **dict.fromkeys(("interval", "se_fit"), "get_prediction(new).summary_frame() has standard errors and limits"),
    },
    "get_prediction": {
        **_PREDICTIONS,
        **dict.fromkeys(
            ("which", "type", "kind", "linear"),
            "It is of what predict(new) gives; predict(new, which='linear') has the linear predictor, without errors",
        ),
        "alpha": "It belongs to what comes back: get_prediction(new).summary_frame(alpha=0.1)",
    },
}
_MODELS: Final = {
    "pr.Huber()": "OLS ols RLM rlm WLS wls GLS gls LinearRegression HuberRegressor lm Gaussian",
    "pr.Logistic()": "Logit logit Probit probit LogisticRegression Binomial",
    "pr.Multinomial()": "MNLogit mnlogit multinom",
    "pr.Poisson(y_max=20)": "poisson NegativeBinomial negativebinomial PoissonRegressor",
    "pr.Quantile(0.5)": "QuantReg quantreg QuantileRegressor rq",
    "pr.Hinge()": "SVC LinearSVC svm",
    "pr.Logistic() (or pr.Poisson(y_max=20), pr.Huber())": "GLM glm",
}
"""Models elsewhere, by the family that stands for them."""

_COV: Final = "the covariance comes from the inference method; choose it with fit(inference=...)"


def unavailable(name: str) -> AttributeError:
    """Error for an attribute that results don't have, naming the private alternative where there is one."""
    if name not in _INSTEAD and name not in _SAME:
        return AttributeError(f"results have no attribute {name!r}; see dir(res)")
    key = name if name in _INSTEAD else _SAME[name]
    why = _COV if key == "cov" else _INSTEAD[key]
    return NotPrivateError(f"{name!r} is not private: {why}.")


def refuse_arguments(where: str, unknown: Mapping[str, object]) -> None:
    """Raise for arguments that a method does not take.

    Raises
    ------
    UnsupportedArgumentError
        A TypeError; for ``cov_type=`` and its like it names ``inference=``.
    """
    for name in unknown:
        hint = f" {_COV[0].upper()}{_COV[1:]}." if name.startswith("cov") or name == "use_t" else ""
        if name in {"level", "conf_level"}:
            hint = " Give alpha=, one minus the level: alpha=0.1 for 90%."
        elif where in _OF_PREDICTIONS and name in _OF_PREDICTIONS[where]:
            hint = f" {_OF_PREDICTIONS[where][name]}."
        raise UnsupportedArgumentError(f"{where}() has no argument {name!r}.{hint}")


def no_such_name(name: str, known: Iterable[str]) -> AttributeError:
    """Error for a name that the package doesn't have: what to write for a model of statsmodels, R or scikit-learn."""
    family = next((f for f, names in _MODELS.items() if name in names.split()), None)
    if family is not None:
        return AttributeError(
            f"privreg has no {name!r}: write PrivateOnlineRegression.from_formula(formula, data, family={family}, "
            "mu=1, ...), or PrivateOnlineRegression(endog, exog, ...) for arrays."
        )
    near = [] if name.startswith("_") else get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return AttributeError(f"module 'privreg' has no attribute {name!r}{hint}")
