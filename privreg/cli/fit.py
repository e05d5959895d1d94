"""The verb ``privreg fit``: a regression of a file.

Needs the standard library only until it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from privreg.cli import output
from privreg.cli.values import budget, check_order, csv_of, family, given

if TYPE_CHECKING:
    import pandas as pd

    from privreg.regression import PrivateOnlineRegression
    from privreg.results.results import PrivateResults

ABOUT: Final = "fit a regression to a file"
USAGE: Final = "privreg fit FORMULA DATA --mu MU --bounds NAME=LOW:HIGH ... [--levels NAME=A,B ...] [options]"
HELP: Final = """\
Fit a regression to a CSV, Parquet or Feather file, or to a folder of Parquet
files, one person a row, and print the summary. Bounds, levels and moments are
public facts, known without looking at the rows; numbers without them need
--scaling private. A Parquet file that pandas wrote may carry them itself, in
attrs["privreg"], and then none need be given. Every run on the same people is
another release: two runs at mu cost 1.41 mu in all, and the command can't see
earlier runs.
"""
EXAMPLES: Final = """\
examples:
  privreg fit "charges ~ age + bmi + smoker" people.csv --mu 1 \\
      --bounds age=18:65 bmi=18:50 charges=0:35000 --levels smoker=no,yes
  privreg fit "ill ~ age + C(clinic)" visits.csv --family logistic \\
      --epsilon 1 --delta 1e-6 --bounds age=18:65 --levels clinic=1,2,3 \\
      --exponentiate --out odds.html --out odds.csv
  privreg fit "y ~ x" data.csv --rho 0.5 --moments x=0:1 --bounds x=-4:4 y=-9:9 \\
      --tuning published --inference random_scaling,plug_in
  privreg fit "income ~ age + np.log(rent)" people.csv --mu 1 --scaling private
  privreg fit "charges ~ age + smoker" people.parquet --mu 1 --schema schema.yaml
  privreg fit "income ~ 1" people.csv --family quantile --tau 0.9 --epsilon 1 \\
      --bounds income=0:200000
  privreg fit "visits ~ age + smoker" people.csv --family poisson --y-max 20 \\
      --exposure years --bounds age=18:65 years=0.5:5 --levels smoker=no,yes \\
      --mu 1 --id person --max-per-id 2 --exponentiate
  privreg fit "travel ~ distance" trips.csv --family multinomial --mu 1 \\
      --bounds distance=0:50 --levels travel=car,bus,bicycle --out travel.csv

how levels are read:
  The first level is the reference. Levels that all are whole numbers (1,2,3 or
  01,02) are whole numbers, and if all are numbers (0.5,1) they are numbers, as
  pandas reads such a column. true,false in any capitals are booleans. In any
  other list every level is text. Double quotes let a level hold a comma:
      --levels 'maker="Smith, Inc.",other'

what --out writes, by suffix:
  .html     a whole page          .csv      table of coefficients
  .txt      text                  .json     table and privacy statement
  .md       Markdown              .docx     Word (pip install privreg[docx])
  .tex      LaTeX                 .privreg  the results, for privreg.load()
"""


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    check_order(a)
    targets, alpha = output.targets(a), output.alpha(a)
    loss, own = family(a)
    described, asked = {**budget(a), **given(a, "local.formula")}, given(a, "local.fit")

    from privreg.families.builtin import FAMILIES
    from privreg.families.family import check_ratios
    from privreg.regression import PrivateOnlineRegression

    model = PrivateOnlineRegression.from_formula(
        a.formula, csv_of(a) or a.path, family=FAMILIES[loss](**own), **described
    )
    if a.exponentiate:  # before anybody's budget is spent
        check_ratios(model.family, model.endog_names)
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
    summary, table = res.summary(exponentiate=a.exponentiate, **limits), res.tidy(a.exponentiate, **limits)
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
