"""What a guarantee means, drawn: how well the best attacker tells two records of one person apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.errors import OptionError
from privreg.privacy.budget import Budget, at_least
from privreg.privacy.conversions import dp_tradeoff
from privreg.results.plots import style
from privreg.results.statement import PrivacyStatement
from privreg.tables import shorten

MARKED: Final = (0.01, 0.05)
"""False positive rates at which the attacker's success is printed."""

_KEY: Final = "true positives at 1% and 5% false positives"


class _Drawn(NamedTuple):
    """One guarantee to draw: the budget granted, and what it is called."""

    budget: Budget
    name: str


def privacy_curve(
    statement: PrivacyStatement | Budget | Sequence[PrivacyStatement | Budget],
    *,
    labels: Sequence[str] | None = None,
    ax: Any = None,
) -> NDArray[Any]:
    """Draw what guarantees mean: the trade-off curve between an attacker's two errors, and the attacker's ROC.

    Parameters
    ----------
    statement : PrivacyStatement, Budget or sequence of them
        Several are overlaid. A budget in (ε, δ) is drawn as the Gaussian mechanism calibrated to it grants it, and as
        promised, dotted, if it is alone.
    labels : sequence of str, optional
        Names for the legend; the guarantees themselves by default.
    ax : sequence of two Axes, optional
        Where to draw; a figure is made without it.

    Returns
    -------
    ndarray of Axes, shape (2,)
        Type II against type I error of the best test between any two records of one person (or sets of records, if
        ``max_per_id`` is above 1), and true against false positive rate of the same test, with the true positive rates
        at 1% and 5% marked and printed. A fit without privacy is drawn as no protection and says so.

    Raises
    ------
    OptionError
        If there is nothing to draw, the labels don't match, or `ax` is not two axes.
    MissingExtraError
        If matplotlib is not installed.

    References
    ----------
    Dong, Roth & Su (2022), Gaussian differential privacy, section 2.
    """
    several = isinstance(statement, Sequence)
    given = list(statement) if isinstance(statement, Sequence) else [statement]
    if not given or not all(isinstance(s, PrivacyStatement | Budget) for s in given):
        raise OptionError("privacy_curve() draws res.privacy or a budget, or a list of one or more of them.")
    if labels is not None and (isinstance(labels, str) or len(labels) != len(given)):
        count = 1 if isinstance(labels, str) else len(labels)
        raise OptionError(f"{count} labels for {len(given)} guarantees; give a list of one each.")
    names = [_name(s) for s in given] if labels is None else shorten(map(str, labels), 30)
    drawn = [_Drawn(s if isinstance(s, Budget) else s.total, n) for s, n in zip(given, names, strict=True)]
    loud = None if several and len(given) > 1 else _loud(given[0])
    footer = f"{loud}; {_attack(given)}" if loud else _attack(given)
    if ax is None:
        height = 1.08 * style.COLUMN + 0.15 * (len(drawn) + 1)
        with style.panels(1, 2, (2 * style.COLUMN, height)) as (figure, made):
            _draw(made[0], drawn)
            style.add_footer(made[0, 1], footer, 1.2 * style.COLUMN)
            # under the panels: inside them, several curves leave no room
            key = figure.legend(*made[0, 1].get_legend_handles_labels(), loc="outside lower left", title=_KEY)
            key.get_title().set_fontsize(style.SMALL)
            key._legend_box.align = "left"
            out: NDArray[Any] = made[0]
            return out
    axes = np.asarray(ax, dtype=object).reshape(-1)
    if axes.size != 2:
        raise OptionError(f"ax must be two axes, one for the trade-off curve and one for the ROC; got {axes.size}.")
    _draw(axes, drawn)
    key = axes[1].legend(frameon=False, fontsize=style.SMALL, loc="lower right", title=_KEY)
    key.get_title().set_fontsize(style.SMALL)
    if loud:
        style.add_corner(axes[1], loud)
    return axes


def _name(one: PrivacyStatement | Budget) -> str:
    if isinstance(one, PrivacyStatement):
        return one.short + (", this release alone" if one.budget.private and one.release.number > 1 else "")
    if not one.private:
        return "NOT PRIVATE"
    if one.form == "epsilon, delta":
        return f"({one.asked[0]:g}, {one.asked[1]:g})-DP by Gaussian noise"
    return f"{at_least(one.epsilon, 4)}-DP (pure)" if one.pure else f"{at_least(one.mu, 4)}-GDP"


def _attack(given: Sequence[PrivacyStatement | Budget]) -> str:
    """What an attacker tries, in a few words."""
    several = any(isinstance(one, PrivacyStatement) and one.per_id > 1 for one in given)
    what = "sets of a person's rows" if several else "records of one person"
    return f"telling two {what} apart, knowing all else"


def _loud(one: PrivacyStatement | Budget) -> str | None:
    if isinstance(one, PrivacyStatement):
        return one.loud
    return None if one.private else "NOT PRIVATE"


def _grid(budget: Budget) -> NDArray[np.float64]:
    """Type I errors: dense where curves bend, the corners of straight pieces among them."""
    corners = [0.0, 1.0, *MARKED]
    if budget.pure:
        corners.append(float(np.exp(-np.logaddexp(0.0, budget.epsilon))))
    tail = np.geomspace(1e-9, 0.05, 200)
    return np.unique(np.concatenate([np.linspace(0.0, 1.0, 401), tail, 1 - tail, corners]))


def _percent(share: float) -> str:
    return f"{at_least(100 * float(share), 3 if share >= 0.1 else 2)}%"


def _draw(axes: NDArray[Any], drawn: list[_Drawn]) -> None:
    tradeoff, roc = axes
    inks = style.inks_for(roc)
    ends = np.array([0.0, 1.0])
    tradeoff.plot(ends, 1 - ends, color=inks.grey, linewidth=0.8, linestyle=":")
    tradeoff.annotate(
        "perfect privacy: guessing",
        (0.5, 0.5),
        xytext=(2, 2),
        textcoords="offset points",
        rotation=-45,
        rotation_mode="anchor",
        transform_rotates_text=True,
        ha="center",
        va="bottom",
        fontsize=style.SMALL,
        color=inks.grey,
    )
    tradeoff.annotate(
        "no protection",
        (0, 0),
        xytext=(4, 4),
        textcoords="offset points",
        fontsize=style.SMALL,
        color=inks.grey,
        zorder=0,
    )
    roc.plot(ends, ends, color=inks.grey, linewidth=0.8, linestyle=":", label="blind guessing: 1% and 5%")
    for i, one in enumerate(drawn):
        colour = inks[i]
        dash = style.DASHES[i % len(style.DASHES)]
        grid = _grid(one.budget)
        miss = one.budget.tradeoff(grid)
        caught = 1 - one.budget.tradeoff(np.array(MARKED))
        line = {"color": colour, "linewidth": 1.4, "linestyle": dash, "clip_on": False}
        name = style.literal(one.name)
        tradeoff.plot(grid, miss, label=name, **line)
        words = " and ".join(map(_percent, caught))
        roc.plot(grid, 1 - miss, label=f"{name}: {words}", **line)
        marker = style.MARKERS[i % len(style.MARKERS)]
        roc.plot(MARKED, caught, linestyle="none", marker=marker, markersize=4, color=colour, zorder=3, clip_on=False)
        if one.budget.form == "epsilon, delta" and len(drawn) == 1:
            epsilon, delta = one.budget.asked
            promised = dp_tradeoff(epsilon, delta, grid)
            words = " and ".join(map(_percent, 1 - dp_tradeoff(epsilon, delta, np.array(MARKED))))
            for panel, curve in ((tradeoff, promised), (roc, 1 - promised)):
                label = f"({epsilon:g}, {delta:g})-DP, all that was promised: {words}"
                panel.plot(grid, curve, color=inks[1], linewidth=0.8, linestyle="--", label=label)
    tradeoff.set(
        xlabel="type I error: wrongly accused",
        ylabel="type II error: wrongly cleared",
        title="Errors the best attacker must make",
    )
    roc.set(xlabel="false positives", ylabel="true positives", title="Successes the best attacker can have")
    for panel in (tradeoff, roc):
        panel.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        panel.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
        panel.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25%", "50%", "75%", "100%"])
