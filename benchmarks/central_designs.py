"""Designs whose records determine all coefficients, some, or none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import beta

import privreg as pr
from privreg.errors import PrivregWarning

N: Final = 20_000
SD: Final = 0.4

Columns = dict[str, np.ndarray]


class Design(NamedTuple):
    """Records, their model, and whether it may be marked."""

    formula: str
    make: Callable[[np.random.Generator, int], Columns]
    effects: dict[str, float]  # By coefficient; of a level relative to the reference
    levels: dict[str, str] = {}  # noqa: RUF012 - read only
    bounds: dict[str, tuple[float, float]] = {}  # noqa: RUF012 - read only; of the columns not in [-1, 1]


def even(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(-1, 1, n)


def middling(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.clip(rng.normal(0, 1 / 3, n), -1, 1)


def factor(shares: dict[str, float]) -> Callable[[np.random.Generator, int], Columns]:
    """A factor with these shares, beside an even number."""
    return lambda rng, n: {"g": rng.choice(list(shares), n, p=list(shares.values())), "x": even(rng, n)}


def together(share: float) -> Callable[[np.random.Generator, int], Columns]:
    """Two numbers, the second mostly the first."""

    def make(rng: np.random.Generator, n: int) -> Columns:
        x = even(rng, n)
        return {"x": x, "z": share * x + (1 - share) * even(rng, n)}

    return make


def added(rng: np.random.Generator, n: int) -> Columns:
    x, z = even(rng, n), even(rng, n)
    return {"x": x, "z": z, "v": (x + z) / 2, "u": even(rng, n)}


def empty(rng: np.random.Generator, n: int) -> Columns:
    g, h = rng.choice(list("ab"), n), rng.choice(list("uvw"), n)
    return {"g": g, "h": np.where((g == "b") & (h == "w"), "u", h), "x": even(rng, n)}


NUMBERS: Final = {"Intercept": 0.3, "x": 0.5, "z": -0.4}
LEVELS: Final = {"Intercept": 0.3, "x": 0.5, "g[T.b]": 0.4, "g[T.c]": -0.3}
CROSSED: Final = {
    "Intercept": 0.3, "x": 0.5, "g[T.b]": 0.4, "h[T.v]": -0.3, "h[T.w]": 0.2, "g[T.b]:h[T.v]": 0.3,
    "g[T.b]:h[T.w]": 0.1,
}  # fmt: skip


def rare(share: float, effect: float = 0.9) -> Design:
    shares = {"a": 0.6, "b": 0.4 - share, "c": share}
    return Design("y ~ x + g", factor(shares), LEVELS | {"g[T.c]": effect}, {"g": "abc"})


def numbers(make: Callable[[np.random.Generator, int], Columns]) -> Design:
    return Design("y ~ x + z", make, NUMBERS)


DESIGNS: Final = {
    "even numbers": Design(
        "y ~ x + z + v", lambda rng, n: {k: even(rng, n) for k in "xzv"}, NUMBERS | {"v": 0.2}
    ),
    "even levels": Design("y ~ x + g", factor({"a": 0.4, "b": 0.3, "c": 0.3}), LEVELS, {"g": "abc"}),
    "numbers and levels": Design(
        "y ~ x + z + g", lambda rng, n: factor({"a": 0.5, "b": 0.3, "c": 0.2})(rng, n) | {"z": middling(rng, n)},
        LEVELS | {"z": -0.4}, {"g": "abc"},
    ),
    "normal numbers": numbers(lambda rng, n: {k: middling(rng, n) for k in "xz"}),
    "correlation 0.45": numbers(together(1 / 3)),
    "a level with 20%": rare(0.2),
    "crossed levels": Design(
        "y ~ x + g * h", lambda rng, n: {"g": rng.choice(list("ab"), n), "h": rng.choice(list("uvw"), n),
        "x": even(rng, n)}, CROSSED, {"g": "ab", "h": "uvw"},
    ),
    "correlation 0.8": numbers(together(4 / 7)),
    "correlation 0.99": numbers(together(0.875)),
    "nearly collinear": numbers(together(0.99)),
    "collinear": Design("y ~ x + z", lambda rng, n: {"x": (x := even(rng, n)), "z": 2 * x}, NUMBERS,
        bounds={"z": (-2, 2)}),
    "columns that add up": Design("y ~ x + z + v + u", added, NUMBERS | {"v": 0.2, "u": 0.3}),
    "no reference": Design("y ~ x + g", factor({"b": 0.3, "c": 0.3, "d": 0.4}), LEVELS | {"g[T.d]": 0.2},
        {"g": "abcd"}),
    "rare reference": Design("y ~ x + g", factor({"a": 0.002, "b": 0.5, "c": 0.498}), LEVELS, {"g": "abc"}),
    "a level with 0.05%": rare(0.0005),
    "a level with 0.2%": rare(0.002),
    "a level with 1%": rare(0.01),
    "a level with 2%": rare(0.02),
    "a level with 5%": rare(0.05),
    "an empty cell": Design("y ~ x + g * h", empty, CROSSED, {"g": "ab", "h": "uvw"}),
    "a constant column": numbers(lambda rng, n: {"x": even(rng, n), "z": np.full(n, 0.3)}),
    "a column of 5% of its range": numbers(lambda rng, n: {"x": even(rng, n), "z": 0.05 * even(rng, n)}),
    "a skewed column": numbers(lambda rng, n: {"x": even(rng, n), "z": np.minimum(rng.exponential(0.15, n), 2) - 1}),
}  # fmt: skip
"""Named cases; numbers are in [-1, 1]. Where columns add up the effects are those that made the response."""

FAMILIES: Final = {"huber": pr.Huber(scale=SD), "median": pr.Quantile(0.5), "logistic": pr.Logistic()}


def fitted(name: str, family: str, run: int, n: int = N, **options: Any) -> pd.DataFrame:
    """Table of one fit at μ = 1, with the effects that made the response."""
    design, seed = DESIGNS[name], [run, list(DESIGNS).index(name), list(FAMILIES).index(family)]
    rng = np.random.default_rng(seed)
    columns = design.make(rng, n)
    eta, binary = np.zeros(n), family == "logistic"
    for name, effect in design.effects.items():
        part = np.ones(n)
        for one in name.split(":") if name != "Intercept" else ():
            column, _, level = one.removesuffix("]").partition("[T.")
            part = part * ((columns[column] == level) if level else columns[column])
        eta += effect * part
    y = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))) * 1.0 if binary else np.clip(eta + rng.normal(0, SD, n), -3, 3)
    bounds = {k: design.bounds.get(k, (-1, 1)) for k, v in columns.items() if v.dtype.kind == "f"}
    model = pr.PrivateOnlineRegression.from_formula(
        design.formula, pd.DataFrame(columns | {"y": y}), trust="central", family=FAMILIES[family], mu=1,
        bounds=bounds | ({} if binary else {"y": (-3, 3)}), levels={k: list(v) for k, v in design.levels.items()},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivregWarning)
        seed = int(rng.integers(1 << 31))
        res = model.fit(tuning="published", seed=seed, progress=False, **options)
    return res.tidy().set_index("term").assign(effect=pd.Series(design.effects))


def limits(inside: int, trials: int) -> tuple[float, float]:
    """Clopper and Pearson's 99% limits."""
    low = float(beta.ppf(0.005, inside, trials - inside + 1)) if inside else 0.0
    return low, float(beta.ppf(0.995, inside + 1, trials - inside)) if inside < trials else 1.0
