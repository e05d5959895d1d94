"""Coefficients of one or several results with their intervals, on one axis."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from privreg.errors import InferenceError, OptionError, flag
from privreg.families.family import check_ratios
from privreg.results.plots.dots import Drawn, Row, Unit, among, figure
from privreg.results.plots.steps import Step, about_steps, steps_of
from privreg.results.plots.style import CONSTANTS, baselines, guarantee, in_all, literal, pyplot
from privreg.results.postestimation.terms import coefficients_of
from privreg.tables import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from privreg.results.data import ResultData
    from privreg.results.estimates import EstimatedResults


def coefficients(
    results: Sequence[EstimatedResults],
    terms: Any = None,
    *,
    labels: Sequence[str] | None = None,
    alpha: float = 0.05,
    intercept: bool = False,
    scaled: bool = False,
    exponentiate: bool = False,
    simultaneous: bool = False,
    title: str | None = None,
    ax: Any = None,
    public: Sequence[pd.DataFrame] = (),
) -> Axes | NDArray[Any]:
    """Draw coefficients of results side by side, each with its name in `labels`; see `PrivateResults.plot_coef`.

    A coefficient that a result lacks is left out there; the step of a covariate is that of the first result that knows
    it. `public` are estimates by term of other libraries' results, drawn after the others in the first one's unit.

    Raises
    ------
    OptionError
        If there is nothing to draw, the labels don't match the results, coefficients are to be exponentiated that are
        no logs of ratios, or `ax` has another number of axes than there are units.
    """
    pyplot()
    if not isinstance(results, Sequence) or not results or not all(hasattr(r, "tidy") for r in results):
        raise OptionError("coefficients() draws a list of one or more results, such as [res] or [res1, res2].")
    names = [f"({i})" for i in range(1, len(results) + 1)] if labels is None else shorten(map(str, labels), 40)
    if len(names) != len(results) + len(public):
        raise OptionError(f"{len(names)} labels for {len(results)} results; give one each.")
    flag("scaled", scaled)
    if flag("exponentiate", exponentiate):
        for r in results:
            check_ratios(r._fit.family, r._fit.design.endog_name)
    tables = [r._fit.flat(r.tidy(alpha=alpha, simultaneous=simultaneous)).set_index("term") for r in results]
    tables += public
    fits = [r._fit for r in results]
    steps = steps_of(fits) if scaled else {}
    wanted = None if terms is None else coefficients_of(fits[0], terms)
    rows = _rows(fits, intercept, steps, wanted)
    held = {name for fit in fits for name in fit.names} | (set() if intercept else {*CONSTANTS})
    more = dict.fromkeys(name for table in public for name in table.index if name not in held and wanted is None)
    rows += [Row(name, name) for name in more]
    tables = [_stepped(table, steps, exponentiate) for table in tables]
    units = [unit_of(fit, exponentiate=exponentiate) for fit in fits]
    drawn = Drawn(tables, rows, names, units + units[:1] * len(public), exponentiate)
    kind = "simultaneous intervals" if simultaneous else "intervals"
    intervals = [f"{100 * (1 - alpha):.6g}% {kind}"] if all("conf_low" in t for t in tables) else []
    own = guarantee([r.privacy for r in results]) + in_all(fits)
    moved = (steps[r.name] for r in rows if r.name is not None and r.step)
    about = about_steps(moved) if scaled else _too_short(tables, rows)
    footer = "; ".join([*baselines(fits), *about, *intervals, own])
    return figure(drawn, footer, title, ax)


def unit_of(fit: ResultData, *, exponentiate: bool) -> Unit:
    """What is on the axis of a result's coefficients."""
    response, link = literal(shorten([fit.design.endog_name], 30)[0]), fit.family.link
    if exponentiate:
        of = re.fullmatch(r"np\.log\((.*)\)", response)
        ratio = f"ratio of {f'exp({response})' if of is None else of[1]}"
        what = {"logit": "odds ratio", "log": "rate ratio"}.get(link, ratio)
        return Unit(what, f"{what} per step")
    what = {"logit": "log-odds", "log": "log rate", "margin": "margin"}.get(link, response)
    return Unit(f"coefficient ({what})", f"change in {what} per step")


def _stepped(table: pd.DataFrame, steps: dict[str, Step], exponentiate: bool) -> pd.DataFrame:
    """The same table of what steps do."""
    columns = [c for c in ("estimate", "conf_low", "conf_high") if c in table]
    step = np.array([steps.get(name, Step()).size for name in table.index])
    out = table.assign(**{c: table[c] * step for c in columns})
    # exp of a wild limit stays finite, as no axis can show infinity
    return out.assign(**{c: np.exp(out[c].clip(-_WILDEST, _WILDEST)) for c in columns}) if exponentiate else out


_SEEN: Final = 1 / 200  # Length of an interval, relative to the farthest limit, below which it is hidden by its dot
_WILDEST: Final = 200.0


def _rows(
    fits: list[ResultData], intercept: bool, steps: dict[str, Step], wanted: Container[str] | None = None
) -> list[Row]:
    """Coefficients in order of first appearance; those of a level together below its heading, after all others."""
    groups: dict[str, dict[str, str]] = {"": {}}
    for fit in fits:
        response, labels = fit.design.endog_name, fit.labels()
        heads = [f"{response} = {v}" for v in labels["level"]] if "level" in labels else [""] * len(labels)
        for head, name, term in zip(heads, fit.names, labels["term"], strict=True):
            if name in wanted if wanted is not None else intercept or term not in CONSTANTS:
                groups.setdefault(head, {}).setdefault(name, term)
    if not any(groups.values()):
        raise InferenceError("the only coefficient is the intercept; ask for it with intercept=True.")
    out = list[Row]()
    for head, found in groups.items():
        out += [Row(None, shorten([head], 40)[0])] if head else []
        for name, label in zip(found, shorten(found.values(), 40), strict=True):
            out.append(Row(name, label, steps.get(name, Step()).words))
    return out


def _too_short(tables: list[pd.DataFrame], rows: list[Row]) -> list[str]:
    """What draws rows whose intervals are too short to be seen beside the others, for a footer."""
    drawn = [part for t in tables if "conf_low" in (part := among(t, rows)) and len(part)]
    lengths = [(part["conf_high"] - part["conf_low"]).to_numpy(dtype=float) for part in drawn]
    ends = [np.abs(part[["conf_low", "conf_high"]].to_numpy(dtype=float)).max() for part in drawn]
    short = any(np.nanmin(length) < _SEEN * end for length, end in zip(lengths, ends, strict=True))
    return ["dots hide some intervals: scaled=True draws comparable steps"] if short else []
