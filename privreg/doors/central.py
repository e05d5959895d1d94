"""A trusted curator's regressions by a name of their own: `privreg.central.Regression`."""

from __future__ import annotations

from typing import Any

from privreg.doors.regression import PrivateOnlineRegression
from privreg.errors import OptionError, shown

__all__ = ["Regression"]


class Regression(PrivateOnlineRegression):
    """`privreg.PrivateOnlineRegression` with ``trust="central"``, whose options and methods it has.

    Examples
    --------
    >>> import numpy as np
    >>> from privreg.central import Regression
    >>> rng = np.random.default_rng(0)
    >>> x = np.column_stack([np.ones(8000), rng.uniform(-1, 1, 8000)])
    >>> y = (rng.uniform(size=8000) < 1 / (1 + np.exp(-2 * x[:, 1]))).astype(float)
    >>> model = Regression(
    ...     y, x, exog_names=["const", "dose"], bounds={"dose": (-1, 1)}, family="logistic", epsilon=1, delta=1e-6
    ... )
    >>> res = model.fit(progress=False)
    >>> res.params.index.tolist(), res.privacy.short
    (['const', 'dose'], '0.2368-GDP, central')
    """

    def __init__(self, endog: Any, exog: Any, *, trust: str = "central", **options: Any) -> None:
        super().__init__(endog, exog, trust=_central(trust), **options)

    @classmethod
    def from_formula(
        cls, formula: str, data: Any = None, *more: Any, trust: str = "central", **options: Any
    ) -> PrivateOnlineRegression:
        """Describe a model by a formula; see `privreg.PrivateOnlineRegression.from_formula`."""
        return super().from_formula(formula, data, *more, trust=_central(trust), **options)


def _central(trust: Any) -> str:
    if trust != "central":
        raise OptionError(
            f"trust={shown(trust)}: pr.central is for trust='central'; people's devices are "
            "pr.PrivateOnlineRegression's."
        )
    return "central"
