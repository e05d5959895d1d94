"""The page of options, made from the table that front doors and the command line are made from.

``python -m docs.options`` writes it to ``docs/options.md``.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, Final

from privreg.options.table import TABLE, Option

__all__ = ["page"]

PRODUCTS: Final = {
    "local": ("Regression from reports", "`pr.PrivateOnlineRegression`, its `from_formula`, `fit` and `start`"),
    "means": ("Means and frequencies", "`pr.means.PrivateMeans`, `pr.means.estimate`"),
    "curator": ("The published descent of a curator", '`fit(tuning="published")` with `trust="central"`'),
    "silos": ("Regression over silos", "`pr.federated.FederatedRegression`"),
    "plan": ("Sample size and power", "`pr.plan`"),
}

HEAD: Final = """\
# Options

Every option, with what it is for, what it may be, and its default. In Python options are keywords: `mu=1`. The command
line has most of them too: `max_per_id=3` is `--max-per-id 3` there, and `bounds={"age": (18, 65)}` is
`--bounds age=18:65`.
"""

KINDS: Final = {
    "pairs": 'such as `{"x": (0, 1)}`',
    "levels": 'such as `{"g": ["no", "yes"]}`',
    "numbers": 'such as `{"g": (0.8, 0.2)}`',
    "coefficients": 'such as `{"x": 0.1}`',
    "sizes": 'a number for all, or by name, such as `{"x": 0.1}`',
    "budgets": 'such as `{"north": 0.5}`',
    "budget": "a number above 0, None for no privacy, or the name of a column",
}
"""What an option may be, where the table of options has no words for it."""

WORDS: Final = {
    "mu": "The budget, in Gaussian differential privacy; 1 is usual.",
    "local mu": "The budget of each person, in Gaussian differential privacy; 1 is usual. Or a column of public "
    "personal "
    "budgets, with `mu_max=`.",
    "k_max": "Rows of one person, at most, of which its one report is made, with `id=`.",
    "plan k_max": "Rows of each person, of which its one report is made.",
    "icc": "The correlation of residuals of one person's rows.",
    "per_person": "Whether rows of people count alike, or people do, whatever number of rows they have; with `k_max=`.",
    "cluster": "The column of clusters of people who may be alike, which are public: all of them are in `levels=`.",
    "local weights": "The column of survey weights, with its `bounds=`.",
    "mu_max": "The largest budget in the column that `mu=` names.",
    "epsilon_max": "The largest budget in the column that `epsilon=` names.",
    "local epsilon": "The budget in pure ε-DP; with `delta=` in (ε, δ)-DP. Or a column of public personal "
    'budgets, with `epsilon_max=` and `tuning="published"`.',
    "epsilon": "The budget in pure ε-DP; with `delta=` in (ε, δ)-DP.",
    "delta": "Goes with `epsilon=`; 1e-6 is usual.",
    "rho": "The budget in zero-concentrated DP.",
    "bounds": "The range of a number: two numbers, or two dates. Values outside are clamped.",
    "means levels": "The levels of a factor, or of the column that `by=` names.",
    "schema": "A file with these declarations, .yaml or .json. Options that are given beside it take precedence.",
    "scaling": "Whether numbers must be declared, or their scale is learned from privatised reports.",
    "allow_leak": "Takes levels or scales that are not declared from the rows, which is NOT private.",
    "covariates": "Public rows, as of a census or an earlier study, that are distributed like the covariates of the "
    "records. The curvature is computed from them.",
    "like": "An earlier fit of the same design, whose map of covariates and threshold are taken over, and so its "
    "estimand.",
    "family": "The loss, by name or as an object such as `pr.Huber()`; [families](guides/models.md) has all.",
    "score_weights": "How the influence of a record is bounded; `'likelihood'`: by declared bounds alone, so that "
    "the estimand is that of glm(), at the cost of more people. By default the tuning chooses.",
    "exog_names": "Names of the columns of an array.",
    "endog_name": "Name of the response, if it is an array.",
    "means trust": "Whom people trust: nobody (local), two collectors who don't collude (two_collectors), or a curator "
    "(central).",
    "trust": "Whom people trust: nobody (local), two collectors who don't collude (two_collectors), or a curator "
    "who holds the rows (central).",
    "mechanism": "How a report is randomised. The default has the least noise for the budget.",
    "frequencies": "How a factor's level is randomised. The default has the least noise for the budget.",
    "m": "Of how many of d items each person is asked. By default as many as give the least noise.",
    "private": "What is protected: the whole record, or the response alone, with public covariates.",
    "by": "A column of public subgroups, with levels.",
    "by_budget": "A subgroup's own budget, at most that of the others.",
    "missing": "What records do that can't be used: send noise (noise), raise an error (raise), which tells about "
    "rows, or "
    "send nothing (drop), which reveals who answered.",
    "tuning": "The algorithm: rounds, or stochastic gradient descent as published; of a curator noisy descent.",
    "inference": "One method or a tuple of them; the first gives the standard errors. None asks for none. "
    "[Inference](guides/inference.md) compares them.",
    "order": "Whether rows are read in random order, where they can be, or by position.",
    "start_params": "First coefficients: public numbers, such as an earlier estimate.",
    "rows": "How many records will come. By default those of a table or a file are counted.",
    "measures": "The share of the records, the last ones, that report how well the fit predicts. 0.05 gives a private "
    "R², "
    "deviance explained, accuracy or the like.",
    "progress": "Whether to show a progress bar. By default on fits of more than a second at a terminal.",
    "client": "A Dask client, whose workers play the devices; 'local' takes this machine's processors.",
    "batch_size": "With `tuning='published'`: records asked at the same iterate.",
    "lanes": "Random groups, each asked at slightly different coefficients. By default 16.",
    "max_per_id": "Rows of one person that count. Further rows send noise.",
    "seed": "Makes noise that can be drawn again, for simulation only: it protects nobody.",
    "checkpoint": "A file in which a long fit is kept on the way. After a kill the same call goes on from there.",
    "curator order": "How records are drawn for the steps: full, poisson, permuted or sampled.",
    "local perturbation": "Of a curator's published descent: where noise is added.",
    "local epochs": "Of a curator's published descent: passes over the records.",
    "local radius": "Of a curator's published descent: the ball that iterates are kept in.",
    "local average": "Of a curator's published descent: the last iterates, which are averaged.",
    "perturbation": "Where the curator's noise is added: to the sum of gradients of every step ('gradient'), or once "
    "to the averaged iterate ('output').",
    "epochs": "Passes over the records.",
    "step": "The size of the steps.",
    "radius": "The ball that iterates are kept in.",
    "curator lanes": "Disjoint random parts of the records, each fitted by itself. How far the fits differ gives "
    "the intervals.",
    "average": "The last iterates, which are averaged.",
    "silos missing": "What becomes of a record that can't be used: it counts for nothing ('noise'), or raises an error "
    "('raise').",
    "curator batch_size": "Records of a step.",
    "silos rounds": "Rounds in which every silo sends one update.",
    "local_steps": "Steps of a silo in each round.",
    "clip": "The largest length of a silo's update.",
    "silos batch_size": "Records of a silo's step.",
    "weights": "Public weights of the silos.",
    "beta": "An option of the mechanisms geodp and ldpvec.",
    "magnitude_share": "An option of the mechanisms geodp and ldpvec.",
    "debias": "An option of the mechanisms geodp and ldpvec.",
    "silos family": "The loss, by name or as an object.",
    "plan covariates": "Public rows like the covariates that are expected.",
    "n": "The number of records.",
    "width": "The length of 95% intervals.",
    "power": "The probability with which a test finds the effect. By default 0.8.",
    "effect": "The size of a coefficient that a test is to find.",
    "params": "The coefficients that are expected. By default 0; they matter for logistic and the like.",
    "shares": "How frequent the levels of a factor are. By default equally.",
    "plan scale": "The residual sd that is expected. By default a quarter of the range of the response.",
    "alpha": "One minus the level of the intervals and tests.",
    "local alpha": "With `tuning='published'`: how fast steps decrease.",
    "local step": "With `tuning='published'`: the size of the steps.",
    "coef": "The coefficient that tables and pictures are about.",
}
"""What options are for in Python, by name or by product and name; of the others the command line's help."""

_OWN: Final = re.compile(r"--([a-z][a-z-]*)")
_DEFAULT: Final = re.compile(r" \(default[^)]*\)")


def _what(o: Option, product: str) -> str:
    told = WORDS.get(f"{product} {o.name}") or WORDS.get(o.name)
    if told is not None:
        return told
    text = _OWN.sub(lambda found: f"`{found[1].replace('-', '_')}=`", _DEFAULT.sub("", o.help)).replace("%%", "%")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _may(o: Option) -> str:
    if o.choices and o.kind != "family":
        return "One of " + ", ".join(f"`{c!r}`" for c in o.choices) + "."
    text = o.what.format(low=o.low, high=o.high).replace("**", "^").replace(" to inf", " or more")
    text = text or KINDS.get(o.kind, "")
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _default(value: Any) -> str:
    return "" if value is None or value == () else f"Default `{value!r}`."


def _line(o: Option, product: str) -> str:
    line = " ".join(part for part in (f"* **`{o.name}`**:", _what(o, product), _may(o), _default(o.default)) if part)
    how: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(line, 128, subsequent_indent="  ", **how)


def page() -> str:
    """The whole page, in Markdown: a list for each product, in the order of the table of options."""
    out = [HEAD]
    for product, (title, doors) in PRODUCTS.items():
        out += [f"## {title}", "", f"Options of {doors}.", ""]
        out += [_line(o, product) for o in TABLE if o.name and o.of(product)]
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    Path(__file__).with_suffix(".md").write_text(page(), "utf-8")
