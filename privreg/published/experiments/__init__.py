"""The published tables and figures, run again: ``privreg experiment NAME``, or one function each.

Every experiment is a value that can be called: seeded replications over a grid of cells, in parallel if asked, stored
as they come, so that a stopped run goes on where it was. It returns a tidy table, and with ``out=`` writes it beside
a figure. Published numbers stand beside ours under the published tuning and under the package's own.

`engine` runs them, `simulation` and `designs` make data, `store`, `summaries` and `figures` what is shown; `xsjkh`,
`rates`, `classes`, `applications` and `dette_graw` are the papers, and `experiments.toml` says what each experiment is.

Examples
--------
>>> import privreg as pr
>>> pr.experiments.xsjkh_fig3
<experiment xsjkh-fig3: coverage against the nominal level, 90% to 99%; XSJKH, arXiv 2505.08227, Figure 3>
>>> table = pr.experiments.sxjkh_fig2(2, quick=True, cells=["mu=1-*"], progress=False)
>>> sorted(set(table["iterate"]))
['average', 'last']
"""

from __future__ import annotations

from typing import Final

from privreg.errors import choose
from privreg.options.elsewhere import public_names
from privreg.published.experiments.applications import APPLICATIONS
from privreg.published.experiments.classes import CLASSES
from privreg.published.experiments.dette_graw import DETTE_GRAW
from privreg.published.experiments.engine import Experiment, run
from privreg.published.experiments.rates import RATES
from privreg.published.experiments.xsjkh import XSJKH

__all__ = [
    "EXPERIMENTS", "Experiment", "dg_fig1", "dg_table1", "dg_table2", "find", "run", "sxjkh_fig2", "sxjkh_fig3",
    "sxjkh_fig4", "sxjkh_fig5", "sxjkh_fig6", "sxjkh_figs7_9", "xsjkh_expectile", "xsjkh_fig2", "xsjkh_fig3",
    "xsjkh_fig4", "xsjkh_fig5", "xsjkh_logistic", "xsjkh_table1", "xsjkh_table3",
]  # fmt: skip

__dir__, __getattr__ = public_names(__name__, __all__)

EXPERIMENTS: Final = {e.name: e for e in (*XSJKH, *APPLICATIONS, *RATES, *CLASSES, *DETTE_GRAW)}
"""Every experiment by the name of its verb."""


def find(name: str) -> Experiment:
    """Return an experiment by name.
    Raises OptionError if there is none of that name; the message lists all.
    """
    return EXPERIMENTS[choose("experiment", name, EXPERIMENTS)]


xsjkh_table1, xsjkh_logistic, xsjkh_expectile, xsjkh_fig2, xsjkh_fig3 = XSJKH
xsjkh_table3, xsjkh_fig4, xsjkh_fig5 = APPLICATIONS
sxjkh_fig2, sxjkh_fig3, sxjkh_fig4, sxjkh_fig5, sxjkh_fig6 = RATES
(sxjkh_figs7_9,) = CLASSES
dg_fig1, dg_table1, dg_table2 = DETTE_GRAW
