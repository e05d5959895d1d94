"""Results as other libraries want them: one list of coefficients, marginaleffects' model, maketables' table."""

import math
from typing import Any

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.base.optional import need
from privreg.collector.inference.pivots import Normal, StudentT
from privreg.errors import InferenceError, OptionError
from privreg.families.logistic import class_shares
from privreg.privacy.ledger import refuse_fitted
from privreg.results.data import Frame
from privreg.results.postestimation.terms import public_row
from privreg.tables.diagnostics import caution


class Stacked:
    """Results with their coefficients in one list, also of a multinomial fit, where they are called "level:term".

    What statsmodels' ``summary_col`` and tables like it read: params, bse, tvalues, pvalues, conf_int(), nobs, model.
    """

    def __init__(self, results: Any) -> None:
        self._results = results
        table = self._table()
        self.params, self.bse = table["estimate"].rename(None), table["std_error"].rename(None)
        self.tvalues, self.pvalues = table["statistic"].rename(None), table["p_value"].rename(None)
        self.nobs, self.model = results.nobs, results.model

    def _table(self, alpha: float = 0.05) -> pd.DataFrame:
        fit = self._results._fit
        table: pd.DataFrame = fit.flat(self._results.tidy(alpha=alpha)).set_index("term").rename_axis(None)
        return table

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Lower and upper limit, columns 0 and 1."""
        return Frame(self._table(alpha)[["conf_low", "conf_high"]].set_axis([0, 1], axis=1))


def for_marginaleffects(self: Any, rows: Any = None) -> Any:
    """These results as a model of the library marginaleffects, for its predictions, comparisons and slopes.

    As in ``marginaleffects.avg_comparisons(res.for_marginaleffects(rows))``, of ``pip install ".[adapters]"``. It
    averages over *public* `rows`, of `PrivateResults.reference_grid` by default. It needs a covariance, and t-ratios
    that are normal or Student's, else it is an InferenceError. What resamples or fits again, and all that reads the
    response, can't work without the data.
    """
    if rows is not None:
        refuse_fitted(rows, "predictions for them", simulated=self.privacy.seeded)
    base, polars = (need(name, "adapters", "for_marginaleffects()") for name in ("marginaleffects.classes", "polars"))
    fit, design, levels = self._fit, self._fit.design, self._fit.classes
    fit.refuse_levels("a prediction")
    if design.formula is None:
        raise OptionError("marginaleffects needs columns with names; fit by from_formula().")
    known = self._known(None, "for_marginaleffects")
    if not isinstance(known.pivot, Normal | StudentT):
        raise InferenceError(
            f"marginaleffects takes t-ratios for normal or Student's, and those of {self.methods[0]!r} are neither; "
            "take res.using('sandwich')."
        )
    caution(fit.names, known.notes, what="what depends on")
    degrees = float(getattr(known.pivot, "df", math.inf))
    public = self.reference_grid() if rows is None else pd.DataFrame(rows)
    columns = list(public_row(fit))
    original = {c: {str(v): v for v in design.schema.levels[c]} for c in columns if c in design.schema.levels}
    data = polars.DataFrame({c: public[c].astype(str if c in original else float).tolist() for c in columns})
    kinds = [polars.col(c).cast(polars.Enum(list(values))) for c, values in original.items()]

    def encoded(new: Any) -> tuple[None, Array]:
        frame = pd.DataFrame({c: new[c].to_list() for c in columns})
        for c, values in original.items():
            frame[c] = frame[c].map(lambda v, values=values: values.get(str(v), v))
        x, offset, _ = self._exog(frame, "for_marginaleffects")
        return None, np.column_stack([x, offset])

    class Model(base.ModelAbstract):  # type: ignore[misc, name-defined]
        """Results of privreg, on public rows."""

        df_resid = degrees  # by which it takes Student's t

        def get_vcov(self, vcov: Any = True) -> Any:
            if not isinstance(vcov, bool):
                raise OptionError("private results have one covariance by method; choose it by res.using(method).")
            return known.cov if vcov else None

        def get_predict(self, params: Any, newdata: Any) -> Any:
            *columns, offset = np.asarray(newdata, dtype=np.float64).T
            x, params = np.column_stack(columns), np.asarray(params, dtype=np.float64).ravel()
            n, parts = len(x), {"estimate": fit.family.inverse_link(x @ params + offset)} if not levels else {}
            if levels:
                eta = fit.family.scoring.log_odds(fit.predictors(x, offset, params))
                parts = {"group": np.repeat([str(v) for v in levels], n), "estimate": class_shares(eta).T.ravel()}
            ids = polars.Series(np.tile(np.arange(n), max(len(levels), 1)), dtype=polars.Int32)
            return polars.DataFrame({"rowid": ids, **parts})

        def get_df(self) -> float:
            return degrees

    vault = base.ModelVault(
        coef=np.array(fit.params),
        coefnames=np.array(fit.names),
        formula=encoded,
        modeldata=data.with_columns(kinds),
        variable_names=[str(design.endog_name), *columns],
        package="privreg",
    )
    return Model(self.model, vault)
