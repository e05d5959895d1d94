"""Predictions of a fit on a *public* test set, compared with it: post-processing, at no privacy cost.

The rows given here are used as they are. Whoever's rows they are must have agreed to their use, or they must be
public: nothing is randomised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from privreg.data.sources.open import public_batches
from privreg.errors import OptionError

if TYPE_CHECKING:
    from privreg.base.arrays import Array
    from privreg.results.data import ResultData
    from privreg.results.estimates import EstimatedResults


def _encoded(fit: ResultData, public_test: Any) -> tuple[Array, Array]:
    """Responses, shape (n,), and linear predictors, shape (n, b)."""
    if fit.family.scoring.censored:
        raise OptionError(
            f"{fit.family!r} predicts the uncensored response, and test rows have it where it isn't censored alone; "
            "fit(measures=0.1) compares shares that are censored with those predicted, and has the log-likelihood."
        )
    fit.refuse_levels("a prediction")
    rows = [fit.design.encode(batch) for batch in public_batches(public_test, fit.design, "measures of prediction")]
    if not sum(len(some.endog) for some in rows):
        raise OptionError("the public test set has no rows.")
    eta = [fit.predictors(some.exog, 0.0 if some.offset is None else some.offset) for some in rows]
    return np.concatenate([some.endog for some in rows]), np.concatenate(eta)


def evaluate(self: EstimatedResults, public_test: Any) -> pd.DataFrame:
    """Compare predictions with responses of a *public* test set, which are used as they are.

    Parameters
    ----------
    public_test : DataFrame, mapping of arrays, path of a CSV file, or (endog, exog) for array models
        Public rows, with the response; numbers are clamped to their declared bounds as in the fit.

    Returns
    -------
    DataFrame
        measure, value. By family: mean, squared and absolute errors and R²; log-loss, accuracy and Brier score;
        mean deviance; check loss and the share below the line; hinge loss and accuracy.

    Raises
    ------
    DataError, SchemaError
        If the rows can't be used.
    NotPrivateError
        If none are given, or they were fitted privately in this process.
    """
    fit = self._fit
    y, eta = _encoded(fit, public_test)
    out = {"rows": float(len(y)), **fit.family.scoring.compared(fit.family, y, eta)}
    return pd.DataFrame({"measure": list(out), "value": list(out.values())})
