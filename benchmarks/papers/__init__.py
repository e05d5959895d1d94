"""The papers' tables and figures, run again: ``python -m benchmarks.papers NAME [--quick]``, from a clone.

Every experiment is a value that can be called: seeded replications over a grid of cells, in parallel if asked, stored
as they come, so that a stopped run goes on where it was. It returns a tidy table, and with ``out=`` writes it beside
a figure. Published numbers stand beside ours under the published tuning and under the package's own.

`engine` runs them, `simulation` and `designs` make data, `store`, `summaries` and `figures` what is shown; `xsjkh`,
`steps`, `rates`, `classes`, `applications` and `dette_graw` are the papers, `batches` varies what DG leave open,
`bounds` and `duan` recompute what needs no runs, and `printed` puts all that is stored beside what is printed.
`experiments.toml` says what each experiment is.

Examples
--------
>>> from benchmarks import papers
>>> papers.find("xsjkh-fig3")
<experiment xsjkh-fig3: coverage against the nominal level, 90% to 99%; XSJKH, arXiv 2505.08227, Figure 3>
"""

from __future__ import annotations

from typing import Final

from benchmarks.papers.applications import APPLICATIONS
from benchmarks.papers.classes import CLASSES
from benchmarks.papers.dette_graw import DETTE_GRAW
from benchmarks.papers.engine import Experiment, run
from benchmarks.papers.rates import RATES
from benchmarks.papers.steps import STEPS
from benchmarks.papers.xsjkh import XSJKH
from privreg.errors import choose

__all__ = ["EXPERIMENTS", "Experiment", "find", "run"]

EXPERIMENTS: Final = {e.name: e for e in (*XSJKH, *STEPS, *APPLICATIONS, *RATES, *CLASSES, *DETTE_GRAW)}
"""Every experiment by its name."""


def find(name: str) -> Experiment:
    """Return an experiment by name.
    Raises OptionError if there is none of that name; the message lists all.
    """
    return EXPERIMENTS[choose("experiment", name, EXPERIMENTS)]
