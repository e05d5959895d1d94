"""The answer to a question on sample size or power, which can be drawn and tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from privreg.errors import OptionError, shown
from privreg.options.progress import progress_bar
from privreg.options.table import check
from privreg.planning.plan import Planned, find

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class StudyPlan(Planned):
    """What a regression with so many people at such a budget will show. Made by :func:`privreg.plan`."""

    def plot(self, coef: str | None = None, *, ax: Axes | None = None) -> Axes:
        """Contours of an interval's mean width over budget and people.

        Parameters
        ----------
        coef : str, optional
            By default the one with the most demanding goal.
        ax : Axes, optional

        Returns
        -------
        Axes
        """
        from privreg.planning import plots

        name = self.critical if coef is None else find(coef, self.spec.coefficients)[0]
        return plots.contours(self, name, ax=ax)

    def check(self, reps: int = 20, *, seed: int | None = None, progress: bool | None = None) -> pd.DataFrame:
        """Simulate people as assumed, fit them, and compare.

        Parameters
        ----------
        reps : int
            Replications; each is a fit of `n` made-up people.
        seed : int, optional
            For the same numbers again.
        progress : bool, optional

        Returns
        -------
        DataFrame
            Indexed by coefficient: planned and simulated mean width, their ratio with its standard error, and how often
            intervals held the truth, with exact 99.9% limits of that share if they hold at their level. Where effects
            were asked for, how often they were told from zero.

        Raises
        ------
        OptionError
            If the response is an expression, or there are more than 10⁸ rows to fit.
        """
        from privreg.planning.check import simulate

        if isinstance(reps, bool) or not isinstance(reps, int) or reps < 2:
            raise OptionError(f"reps={shown(reps)} must be a whole number, at least 2.")
        with progress_bar(reps, progress) as bar:
            return simulate(self, reps, check("local.fit", "seed", seed), lambda: bar.update(1))
