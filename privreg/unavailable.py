"""What statsmodels offers and privacy can't: each name with its private alternative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from privreg.errors import NotPrivateError, UnsupportedArgumentError

__all__ = ["refuse_arguments", "unavailable"]

_INSTEAD: Final = {
    "resid": "residuals are raw data; look at predict() on public covariate values",
    "fittedvalues": "fitted values are raw data; use predict(new) with public covariate values",
    "rsquared": "R² needs every residual; fit(measures=0.05) releases a private one, in res.fit_measures",
    "deviance": "the deviance needs every record; fit(measures=0.05) releases a private share of it that is explained, "
    "in res.fit_measures",
    "llf": "the likelihood needs every record; compare models by wald_test() of nested restrictions",
    "scale": "the residual scale needs every residual; fit(measures=0.05) releases a private one, in res.fit_measures, "
    "and Huber(scale=) declares a public one",
    "get_margeff": "average marginal effects need every row; take differences of predict() at public covariate values",
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
        raise UnsupportedArgumentError(f"{where}() has no argument {name!r}.{hint}")
