"""The verb ``privreg fit``: a regression of a file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from privreg.cli import output
from privreg.cli.values import budget, check_order, data_of, family, given

if TYPE_CHECKING:
    import pandas as pd

    from privreg.doors.regression import PrivateOnlineRegression
    from privreg.results.results import PrivateResults


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    check_order(a)
    targets, alpha = output.targets(a), output.alpha(a)
    loss, constants = family(a)
    described, asked = {**budget(a), **given(a, "local.formula")}, given(a, "local.fit")

    from privreg.doors.loading import load_results
    from privreg.doors.regression import PrivateOnlineRegression
    from privreg.families import FAMILIES
    from privreg.families.family import check_ratios

    model = PrivateOnlineRegression.from_formula(a.formula, data_of(a), family=FAMILIES[loss](**constants), **described)
    if a.exponentiate:  # before anybody's budget is spent
        check_ratios(model.family, model.endog_names)
    if "like" in asked:
        asked["like"] = load_results(asked["like"])
    if "covariates" in asked:
        asked["covariates"] = _public(asked["covariates"], model)
    res = model.fit(progress=False if a.quiet else None, **asked)
    return output.deliver(shown(res, a, alpha), targets, a)


def shown(res: PrivateResults, a: argparse.Namespace, alpha: float) -> output.Shown:
    """Results of a regression as they are asked for, at the level 1 − `alpha`."""
    limits = {"alpha": alpha, "simultaneous": a.simultaneous}
    head = {
        "family": repr(res.family),
        "inference": list(res.methods),
        "simultaneous": a.simultaneous,
        "exponentiated": a.exponentiate,
    }
    summary, table = (
        res.summary(details=a.details, exponentiate=a.exponentiate, **limits),
        res.tidy(a.exponentiate, **limits),
    )
    return output.Shown(res, summary, table, head, "coefficients")


def _public(path: str, model: PrivateOnlineRegression) -> pd.DataFrame:
    """Public rows of a file, which is another than the people's."""
    import pandas as pd

    from privreg.data.sources.open import open_table
    from privreg.privacy.ledger import refuse_shared

    source = open_table(path, model._spec.design.covariates, model.schema)
    if model._source is not None:
        refuse_shared(source.identity, model._source.identity, "--covariates")
    return pd.concat([pd.DataFrame(batch) for batch in source.batches(0)], ignore_index=True)
