"""Real records: the RAND Health Insurance Experiment, as statsmodels carries it."""

from __future__ import annotations

import math

import pandas as pd

from privreg.datasets.synthetic import Declarations, carried


def randhie() -> pd.DataFrame:
    """Load the RAND health insurance records that statsmodels carries: 20,190 real, long public observations.

    Columns are ``mdvis`` (visits to a doctor), ``lncoins`` (log coinsurance rate), ``idp`` (individual deductible
    plan), ``lpi`` (log participation payment), ``fmde`` (log maximum expenditure), ``physlm`` (physical limitation),
    ``disea`` (chronic diseases), ``hlthg``, ``hlthf``, ``hlthp`` (health rated good, fair, poor; excellent is left
    out). ``attrs["privreg"]`` holds the declarations of :func:`randhie_schema`, which models use.

    A row is a *person-year*, not a person: some 5,900 people took part for three or five years, and no column of the
    bundled table tells whose row is whose. A fit of all rows at μ protects each row by μ, and a person of five rows by
    √5·μ = 2.24·μ (by 5·ε if ε is pure), although what is printed counts every row as a person: it can't know. Where a
    column of your own data names the person, give it as ``id="person"`` with ``max_per_id=5``, which prints the
    guarantee per person, or with the default ``max_per_id=1``, which uses one row of each. The source file beside the
    bundled one has such a column, in the same order; the vignette on these records reads it.

    References
    ----------
    Cameron & Trivedi (2005), *Microeconometrics: Methods and Applications*; ``statsmodels.datasets.randhie``.
    """
    from statsmodels.datasets import randhie as bundled

    frame: pd.DataFrame = bundled.load_pandas().data.copy()
    provenance = "real records: RAND Health Insurance Experiment, as bundled with statsmodels"
    frame.attrs |= {"provenance": provenance, "privreg": carried(randhie_schema())}
    return frame


def randhie_schema() -> Declarations:
    """Public bounds of :func:`randhie`, from what the variables mean rather than from these rows.

    * ``mdvis``: 0 to 77, the range in the published descriptions of these records, a public fact since then.
    * ``lncoins`` is ln(rate + 1) of a rate between 0 and 100 per cent: 0 to ln 101.
    * ``lpi`` is the log of a yearly payment, at least 1; 8 stands for about 3,000 dollars.
    * ``fmde`` is the log of the maximum expenditure divided by the coinsurance share. The plans capped the
      first at 1,000 dollars and the smallest positive share was a quarter, so ln 4000 < 8.5.
    * ``disea`` is an index of chronic diseases, 0 to 58.6 in the published descriptions.
    * ``physlm`` is 0 or 1, or a share between them where the source imputed it.
    * The others are 0 or 1. Some are rare, and levels tell of rare values more than bounds do.
    """
    logs = {"lncoins": (0.0, math.log(101)), "lpi": (0.0, 8.0), "fmde": (0.0, 8.5)}
    factors = ("idp", "hlthg", "hlthf", "hlthp")
    bounds = {"mdvis": (0, 77), "disea": (0, 60), "physlm": (0, 1), **logs}
    return {"bounds": bounds, "levels": {name: [0, 1] for name in factors}}
