"""Figure of a guarantee: the best attacker's success in distinguishing two records of one person."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.errors import InferenceError, OptionError
from privreg.privacy.budget import Budget, at_least
from privreg.results.plots import style
from privreg.results.statement import PrivacyStatement
from privreg.tables import shorten

MARKED: Final = (0.01, 0.05)  # False positive rates at which the attacker's success is printed
_KEY: Final = "true positives at 1% and 5% false positives"


def privacy_curve(
    statement: PrivacyStatement | Budget | Sequence[PrivacyStatement | Budget],
    *,
    labels: Sequence[str] | None = None,
    ax: Any = None,
) -> NDArray[Any]:
    """Draw what guarantees mean: the trade-off curve between an attacker's two errors, and the attacker's ROC.

    Type II against type I error of the best test between any two records of one person (or sets of records, if
    ``max_per_id`` is above 1), and true against false positive rate of the same test, with the true positive rates at
    1% and 5%: Dong, Roth & Su (2022), Gaussian differential privacy, section 2. Several statements or budgets are
    overlaid, called by `labels` or by their guarantees. A budget in (ε, δ) is drawn as the Gaussian mechanism
    calibrated to it grants it, a fit without privacy as no protection. A single statement of data with earlier releases
    has a second curve, of all of them together.
    """
    given = list(statement) if isinstance(statement, Sequence) else [statement]
    if not given or not all(isinstance(s, PrivacyStatement | Budget) for s in given):
        raise OptionError("privacy_curve() draws res.privacy or a budget, or a list of one or more of them.")
    if odd := [s.short for s in given if isinstance(s, PrivacyStatement) and not s.gaussian]:
        raise InferenceError(
            f"{odd[0]} is not one Gaussian mechanism, whose curve this draws; fit with order='full' or 'permuted'."
        )
    if labels is not None and (isinstance(labels, str) or len(labels) != len(given)):
        count = 1 if isinstance(labels, str) else len(labels)
        raise OptionError(f"{count} labels for {len(given)} guarantees; give a list of one each.")
    names = [] if labels is None else shorten(map(str, labels), 30)
    for one in given if labels is None else ():
        if isinstance(one, PrivacyStatement):
            names.append(one.short + (", this release alone" if one.budget.private and one.release.number > 1 else ""))
        elif one.form == "epsilon, delta" and one.private:
            names.append(f"({one.asked[0]:g}, {one.asked[1]:g})-DP by Gaussian noise")
        else:
            pure = f"{at_least(one.epsilon, 4)}-DP (pure)" if one.pure else f"{at_least(one.mu, 4)}-GDP"
            names.append(pure if one.private else "NOT PRIVATE")
    drawn = [(s if isinstance(s, Budget) else s.total, n) for s, n in zip(given, names, strict=True)]
    one, several = given[0], any(isinstance(s, PrivacyStatement) and s.per_id > 1 for s in given)
    loud = one.loud if isinstance(one, PrivacyStatement) else None if one.private else "NOT PRIVATE"
    loud = loud if len(given) == 1 else None
    if len(given) == 1 and isinstance(one, PrivacyStatement) and one.budget.private and one.release.number > 1:
        mu, private = one.release.total_mu, math.isfinite(one.release.total_mu)
        all_of = f"{at_least(mu, 4)}-GDP" if private else "NOT PRIVATE"
        drawn.append((Budget.declare(mu=mu if private else None), f"{all_of}, all {one.release.number} releases"))
    what = "sets of a person's rows" if several else "records of one person"
    footer = "; ".join(filter(None, [loud, f"distinguishing two {what}, knowing all else"]))
    lines = len(drawn) + max(len(textwrap.wrap(footer, 60)) - 1, 1)
    size, what = (
        (2 * style.COLUMN, 1.08 * style.COLUMN + 0.15 * lines),
        "two panels, the trade-off curve and the ROC",
    )
    with style.placed(ax, (1, 2), size, what) as grid:
        axes: NDArray[Any] = grid.ravel()
        _draw(axes, drawn)
        if ax is None:  # under the panels: inside them, several curves leave no room
            style.add_footer(axes[1], footer, 1.2 * style.COLUMN)
            key = axes[1].figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower left", title=_KEY)
            key._legend_box.align = "left"
        else:
            key = axes[1].legend(frameon=False, fontsize=style.SMALL, loc="lower right", title=_KEY)
            style.add_footer(axes[1], loud or "", None)
        key.get_title().set_fontsize(style.SMALL)
    return axes


def _draw(axes: NDArray[Any], drawn: list[tuple[Budget, str]]) -> None:
    tradeoff, roc = axes
    inks, corners = style.inks_for(roc), np.array([0.0, 1.0])
    grey = {"color": inks.grey, "linewidth": 0.8, "linestyle": ":"}
    tradeoff.plot(corners, 1 - corners, **grey)
    said = {"textcoords": "offset points", "fontsize": style.SMALL, "color": inks.grey}
    along = {"rotation": -45, "rotation_mode": "anchor", "transform_rotates_text": True, "ha": "center", "va": "bottom"}
    tradeoff.annotate("perfect privacy: guessing", (0.5, 0.5), xytext=(2, 2), **said, **along)
    tradeoff.annotate("no protection", (0, 0), xytext=(4, 4), zorder=0, **said)
    roc.plot(corners, corners, **grey, label="blind guessing: 1% and 5%")
    for i, (budget, called) in enumerate(drawn):
        tail, name = np.geomspace(1e-9, 0.05, 200), style.literal(called)  # dense where curves bend
        ends = [float(np.exp(-np.logaddexp(0.0, budget.epsilon)))] if budget.pure else []  # of straight pieces
        grid = np.unique(np.concatenate([np.linspace(0.0, 1.0, 401), tail, 1 - tail, MARKED, ends]))
        miss, caught = budget.tradeoff(grid), 1 - budget.tradeoff(np.array(MARKED))
        look = {"color": inks[i], "linewidth": 1.4, "linestyle": style.DASHES[i % len(style.DASHES)], "clip_on": False}
        tradeoff.plot(grid, miss, label=name, **look)
        shares = " and ".join(f"{at_least(100 * float(p), 3 if p >= 0.1 else 2)}%" for p in caught)
        roc.plot(grid, 1 - miss, label=f"{name}: {shares}", **look)
        look |= {"linestyle": "none", "marker": style.MARKERS[i % len(style.MARKERS)], "markersize": 4, "zorder": 3}
        roc.plot(MARKED, caught, **look)
    errors = {"xlabel": "type I error: wrongly accused", "ylabel": "type II error: wrongly cleared"}
    tradeoff.set(**errors, title="Errors the best attacker must make")
    roc.set(xlabel="false positives", ylabel="true positives", title="Successes the best attacker can have")
    for panel in (tradeoff, roc):
        panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_ticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
