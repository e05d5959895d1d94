"""Made-up records on which models are wrong, covariates are ugly and errors aren't normal, and some without fault."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.special import expit

import privreg as pr

__all__ = ["ANSWERS", "DESIGNS", "Design"]

Generator = np.random.Generator
Rows = dict[str, Any]

SD: Final = 0.5
FAR: Final = (-4.0, 4.0)


class Design(NamedTuple):
    """A formula, and records for it."""

    formula: str
    make: Callable[[Generator, int], Rows]
    bounds: dict[str, tuple[float, float]]
    levels: dict[str, list[str]] | None = None
    family: Any = "huber"
    more: dict[str, Any] | None = None  # Of `from_formula`


def _normal(rng: Generator, n: int, names: str = "abc") -> Rows:
    return dict(zip(names, rng.standard_normal((len(names), n)), strict=True))


def _yes_no(rng: Generator, n: int, share: float) -> Any:
    return np.array(["n", "y"])[(rng.random(n) < share).astype(int)]


def _plain(rng: Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": 1 + x["a"] + x["b"] + x["c"] + SD * rng.standard_normal(n)}


def _fanned(rng: Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": 1 + x["a"] + x["b"] + x["c"] + SD * np.exp(x["a"] / 2) * rng.standard_normal(n)}


def _tenfold(rng: Generator, n: int) -> Rows:
    a, b = rng.random(n), rng.standard_normal(n)
    return {"a": a, "b": b, "y": 1 + a + b + 0.25 * (1 + 9 * a) * rng.standard_normal(n)}


def _quadratic(rng: Generator, n: int) -> Rows:
    x = _normal(rng, n, "ab")
    return x | {"y": 1 + x["a"] + x["a"] ** 2 + x["b"] + SD * rng.standard_normal(n)}


def _bent(rng: Generator, n: int) -> Rows:
    """Spread and a curved effect both grow; half of the records have small a."""
    a = np.where(rng.random(n) < 0.5, 0.2 * rng.random(n), rng.random(n))
    b = rng.standard_normal(n)
    return {"a": a, "b": b, "y": 4 * a**2 + 0.2 * b + (0.05 + a) * rng.standard_normal(n)}


def _lognormal(rng: Generator, n: int) -> Rows:
    a, b = np.exp(rng.standard_normal(n)), rng.standard_normal(n)
    return {"a": a, "b": b, "y": 1 + a + b + SD * rng.standard_normal(n)}


def _incomes(rng: Generator, n: int) -> Rows:
    """A skewed covariate whose effect levels off, with errors in proportion."""
    a, b = np.exp(rng.standard_normal(n)), rng.standard_normal(n)
    mean = np.log1p(3 * a) + 0.3 * b
    return {"a": a, "b": b, "y": mean + 0.4 * mean * (rng.standard_exponential(n) - 1)}


def _heaped(rng: Generator, n: int) -> Rows:
    """A response in whole numbers of which a third is 0, a covariate in steps of five."""
    a, b = 5 * np.rint(rng.uniform(20, 70, n) / 5), rng.standard_normal(n)
    y = np.rint(0.1 * a + b + 2 * rng.standard_normal(n))
    return {"a": a, "b": b, "y": np.where(rng.random(n) < 0.33, 0, np.maximum(y, 0))}


def _peaks(rng: Generator, n: int) -> Rows:
    """A covariate with two peaks, a step in its effect."""
    a = np.where(rng.random(n) < 0.7, -1, 2) + 0.3 * rng.standard_normal(n)
    b = 0.5 * a + rng.standard_normal(n)
    return {"a": a, "b": b, "y": a + b + 1.5 * (a > 1) * b + (0.3 + 0.7 * (a > 1)) * rng.standard_normal(n)}


def _binaries(rng: Generator, n: int) -> Rows:
    a, b, c = (rng.random((n, 3)) < [0.5, 0.3, 0.2]).T.astype(float)
    d = rng.standard_normal(n)
    return {"a": a, "b": b, "c": c, "d": d, "y": 1 + a + b + c + d + SD * rng.standard_normal(n)}


def _factors(rng: Generator, n: int) -> Rows:
    g, a = rng.choice(5, n, p=[0.3, 0.25, 0.2, 0.15, 0.1]), (rng.random(n) < 0.5).astype(int)
    y = 1 + np.array([0, 1, -1, 0.5, 2])[g] + a + SD * rng.standard_normal(n)
    return {"g": np.array(list("uvwxz"))[g], "a": np.array(["n", "y"])[a], "y": y}


def _reference(rng: Generator, n: int) -> Rows:
    """All levels are compared with the rarest, whose errors are twice as wide; effects are a curve."""
    g, x = rng.choice(5, n, p=[0.06, 0.3, 0.3, 0.2, 0.14]), rng.standard_normal(n)
    y = 0.3 * g + 0.5 * x + 0.15 * x**2 + np.where(g == 0, 1.0, 0.5) * rng.standard_normal(n)
    return {"g": np.array(list("uvwxz"))[g], "x": x, "y": y}


def _rare(rng: Generator, n: int) -> Rows:
    g, x = _yes_no(rng, n, 0.05), _normal(rng, n, "ab")
    return x | {"g": g, "y": 1 + (g == "y") + x["a"] + x["b"] + SD * rng.standard_normal(n)}


TEN: Final = list("abcdefghij")


def _ten_levels(rng: Generator, n: int) -> Rows:
    """Ten levels, the rarest 2%, whose spreads differ threefold."""
    share = np.array([20, 17, 14, 12, 10, 9, 7, 5, 4, 2]) / 100
    g, x = rng.choice(10, n, p=share), rng.standard_normal(n)
    y = np.linspace(-1, 1, 10)[g] + 0.5 * x + (0.3 + 0.07 * g) * rng.standard_normal(n)
    return {"g": np.array(TEN)[g], "x": x, "y": y}


def _charges(rng: Generator, n: int) -> Rows:
    """Costs: skewed, most where two things meet that the model knows apart."""
    age, weight = rng.integers(18, 65, n).astype(float), np.clip(rng.normal(30, 6, n), 15, 54)
    s = rng.random(n) < 0.2
    mean = 0.25 * (age - 18) + s * (13 + 18 * (weight > 30))
    return {
        "age": age, "weight": weight, "smoker": np.where(s, "y", "n"),
        "y": 2 + mean + (1 + 0.05 * age) * rng.standard_exponential(n) ** 1.5,
    }  # fmt: skip


def _valley(rng: Generator, n: int) -> Rows:
    """Nothing, or in a group mostly a large amount: few responses lie between."""
    g, x, e = rng.random(n) < 0.25, rng.standard_normal(n), rng.standard_normal(n)
    large = g & (rng.random(n) < 0.6)
    return {"g": np.where(g, "y", "n"), "x": x, "y": 11 * large + 0.3 * x + 0.3 * e}


def _interaction(rng: Generator, n: int) -> Rows:
    g, x = _yes_no(rng, n, 0.3), rng.standard_normal(n)
    on = g == "y"
    return {"g": g, "x": x, "y": x * (0.5 + on) + 0.3 * x**2 * on + (0.4 + 0.6 * on) * rng.standard_normal(n)}


def _slopes(rng: Generator, n: int) -> Rows:
    """Levels with slopes of their own in a skewed covariate, the rarest with the widest errors."""
    g, x = rng.choice(3, n, p=[0.6, 0.25, 0.15]), np.minimum(2.0 * rng.standard_exponential(n), 10.0)
    spread = np.array([0.4, 1.0, 2.5])[g] * (1 + 0.3 * x)
    y = 1 + np.array([0.0, 1.0, -1.0])[g] + np.array([0.5, 1.0, 2.0])[g] * x + spread * rng.standard_normal(n)
    return {"g": np.array(list("uvw"))[g], "x": x, "y": y}


def _mostly_0(rng: Generator, n: int) -> Rows:
    """Errors that are twice as wide where a covariate is not 0, as it is for most."""
    a, b = np.where(rng.random(n) < 0.85, 0.0, np.minimum(rng.gamma(2.0, 1.0, n), 10.0)), rng.standard_normal(n)
    return {"a": a, "b": b, "y": 1 + 0.5 * a + b + 0.5 * (1 + (a > 0)) * rng.standard_normal(n)}


def _far_for_few(rng: Generator, n: int) -> Rows:
    """A number that 5% of the records have, anywhere in its range, else 0; the model is right."""
    a, b = np.where(rng.random(n) < 0.05, rng.uniform(0.0, 10.0, n), 0.0), rng.standard_normal(n)
    return {"a": a, "b": b, "y": 1.0 + 0.5 * a + b + rng.standard_normal(n)}


def _correlated(rng: Generator, n: int) -> Rows:
    root = np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(range(5), range(5))))
    x = rng.standard_normal((n, 5)) @ root.T
    return dict(zip("abcde", x.T, strict=True)) | {"y": 1 + x.sum(axis=1) + SD * rng.standard_normal(n)}


def _numbers(p: int, rng: Generator, n: int) -> Rows:
    """Every other covariate skewed, so that the intercept lies far from most people."""
    x = rng.standard_normal((p, n))
    x[::2] = np.minimum(np.exp(0.6 * x[::2]), 10.0)
    y = np.linspace(-0.5, 0.5, p) @ x + rng.standard_normal(n)
    return {f"x{j}": x[j] for j in range(p)} | {"y": y}


def _many(p: int) -> Design:
    bounds = {f"x{j}": FAR if j % 2 else (0.0, 10.0) for j in range(p)}
    return Design("y ~ " + " + ".join(bounds), partial(_numbers, p), bounds | {"y": (-20.0, 25.0)})


def _skewed(rng: Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": 1 + x["a"] + x["b"] + x["c"] + rng.standard_exponential(n)}


def _skewed_and_fanned(rng: Generator, n: int) -> Rows:
    a, b = rng.uniform(0, 2, n), rng.standard_normal(n)
    return {"a": a, "b": b, "y": a + 0.5 * b + (0.2 + a) * (np.exp(0.8 * rng.standard_normal(n)) - 1)}


def _heavy(rng: Generator, n: int) -> Rows:
    x = _normal(rng, n)
    return x | {"y": 1 + x["a"] + x["b"] + x["c"] + SD * rng.standard_t(2, n)}


def _threshold(rng: Generator, n: int) -> Rows:
    """Yes by a complementary log-log link, with a square that the model does not know."""
    x = _normal(rng, n, "ab")
    rate = np.exp(-0.5 + 0.7 * x["a"] - 0.4 * x["a"] ** 2 + 0.5 * x["b"])
    return x | {"y": (rng.random(n) < -np.expm1(-rate)).astype(int)}


def _visits(rng: Generator, n: int) -> Rows:
    """Counts that are dispersed fourfold, linear in a covariate and not log-linear."""
    a, b = rng.uniform(0, 2, n), rng.standard_normal(n)
    mean = (0.5 + a) * np.exp(0.2 * b) * rng.gamma(0.7, 1 / 0.7, n)
    return {"a": a, "b": b, "y": np.minimum(rng.poisson(mean), 20)}


def _groups(rng: Generator, n: int) -> Rows:
    """A predictor whose slope differs between a group and the rest."""
    g, x = rng.random(n) < 0.3, rng.random(n)
    return {"g": np.where(g, "y", "n"), "x": x, "eta": -0.5 + 0.6 * x + g * (0.8 + 0.5 * x)}


def _mostly_none(rng: Generator, n: int) -> Rows:
    """A predictor with a covariate that is 0 for most people."""
    a, b = np.where(rng.random(n) < 0.85, 0.0, rng.random(n)), rng.standard_normal(n)
    return {"a": a, "b": b, "eta": -0.5 + a + 0.5 * b}


def _few_far_out(rng: Generator, n: int) -> Rows:
    """A covariate that lies far out for few, up to forty times its usual deviation, and no longer counts for them."""
    a, b = np.clip(0.33 + 0.06 * rng.standard_t(2, n), 0.0, 3.0), rng.standard_normal(n)
    return {"a": a, "b": b, "eta": -3.0 + 5.0 * np.minimum(a, 0.6) + 0.5 * b}


def _few_far_below(rng: Generator, n: int) -> Rows:
    """A covariate, the logarithm of an income, say, that is near 0 for few, which then tells nothing of them."""
    b = rng.standard_normal(n)
    a = np.where(rng.random(n) < 0.02, rng.random(n), np.clip(9.0 + 0.5 * rng.standard_normal(n), 0.0, 12.0))
    return {"a": a, "b": b, "eta": 0.4 * np.where(a < 2.0, 0.0, a - 9.0) + 0.3 * b}


def _illnesses(rng: Generator, n: int) -> Rows:
    """A number that grows with another, is 0 or 1 for most, and multiplies a count."""
    age, g = rng.uniform(0.0, 90.0, n), _yes_no(rng, n, 0.5)
    ill = np.minimum(rng.poisson(0.4 + 0.01 * age), 6).astype(float)
    eta = -0.2 + 0.006 * age + 0.3 * ill + 0.1 * (g == "y")
    return {"age": age, "ill": ill, "g": g, "y": np.minimum(rng.poisson(np.exp(eta)), 20)}


def _answers(rows: Callable[[Generator, int], Rows], rng: Generator, n: int) -> Rows:
    """Yes or no by a right link."""
    x = rows(rng, n)
    return x | {"y": (rng.random(n) < expit(x.pop("eta"))).astype(int)}


def _events(rows: Callable[[Generator, int], Rows], rng: Generator, n: int) -> Rows:
    """Counts by a right link."""
    x = rows(rng, n)
    return x | {"y": np.minimum(rng.poisson(np.exp(0.5 + x.pop("eta"))), 30)}


def _choices(rng: Generator, n: int) -> Rows:
    """Classes by normal utilities, one with a square."""
    x = _normal(rng, n, "ab")
    noise = rng.standard_normal((n, 3))
    chosen = noise + np.column_stack([np.zeros(n), 0.5 + 0.7 * x["a"] - 0.2 * x["a"] ** 2, -0.3 + 0.6 * x["b"]])
    return x | {"y": np.array(list("uvw"))[chosen.argmax(axis=1)]}


_THREE = {"a": FAR, "b": FAR, "c": FAR}
_Y = {"y": (-8.0, 10.0)}
_ABC = "y ~ a + b + c"
_UNIT = {"a": (0.0, 1.0), "b": FAR}
_YES = {"g": ["n", "y"]}
Quantile = pr.families.Quantile
_COUNTS = pr.families.Poisson(y_max=30)
DESIGNS: Final = {
    "normal": Design(_ABC, _plain, _THREE | _Y),
    "fanned": Design(_ABC, _fanned, _THREE | _Y),
    "tenfold": Design("y ~ a + b", _tenfold, _UNIT | _Y),
    "quadratic": Design("y ~ a + I(a**2) + b", _quadratic, {"a": FAR, "b": FAR, "y": (-8.0, 12.0)}),
    "straight": Design("y ~ a + b", _quadratic, {"a": FAR, "b": FAR, "y": (-8.0, 12.0)}),
    "bent": Design("y ~ a + I(a**2) + b", _bent, _UNIT | {"y": (-4.0, 10.0)}),
    "bent, as a line": Design("y ~ a + b", _bent, _UNIT | {"y": (-4.0, 10.0)}),
    "lognormal": Design("y ~ a + b", _lognormal, {"a": (0.0, 20.0), "b": FAR, "y": (-5.0, 25.0)}),
    "incomes": Design("y ~ a + b", _incomes, {"a": (0.0, 20.0), "b": FAR, "y": (-2.0, 20.0)}),
    "heaped": Design("y ~ a + b", _heaped, {"a": (18.0, 72.0), "b": FAR, "y": (0.0, 15.0)}),
    "two peaks": Design("y ~ a + b", _peaks, {"a": (-2.0, 3.0), "b": FAR, "y": (-10.0, 15.0)}),
    "binaries": Design(
        "y ~ a + b + c + d", _binaries, dict.fromkeys("abc", (0.0, 1.0)) | {"d": FAR, "y": (-4.0, 8.0)}
    ),
    "factors": Design("y ~ g + a", _factors, {"y": (-4.0, 8.0)}, {"g": list("uvwxz"), "a": ["n", "y"]}),
    "rare reference": Design("y ~ g + x", _reference, {"x": FAR, "y": (-6.0, 8.0)}, {"g": list("uvwxz")}),
    "rare": Design("y ~ g + a + b", _rare, {"a": FAR, "b": FAR, "y": (-6.0, 8.0)}, _YES),
    "ten levels": Design("y ~ g + x", _ten_levels, {"x": FAR, "y": (-6.0, 6.0)}, {"g": TEN}),
    "charges": Design(
        "y ~ age + weight + smoker", _charges, {"age": (18.0, 64.0), "weight": (15.0, 54.0), "y": (0.0, 70.0)},
        {"smoker": ["n", "y"]},
    ),
    "valley": Design("y ~ g + x", _valley, {"x": FAR, "y": (-5.0, 16.0)}, _YES),
    "interaction": Design("y ~ g * x", _interaction, {"x": FAR, "y": (-6.0, 10.0)}, _YES),
    "interaction, skewed": Design("y ~ g * x", _slopes, {"x": (0.0, 10.0), "y": (-10.0, 30.0)}, {"g": list("uvw")}),
    "mostly none": Design("y ~ a + b", _mostly_0, {"a": (0.0, 10.0), "b": FAR, "y": (-10.0, 30.0)}),
    "far for few": Design("y ~ a + b", _far_for_few, {"a": (0.0, 10.0), "b": FAR, "y": (-10.0, 30.0)}),
    "correlated": Design(
        "y ~ a + b + c + d + e", _correlated, dict.fromkeys("abcde", FAR) | {"y": (-17.0, 19.0)}
    ),
    "ten numbers": _many(10),
    "skewed": Design(_ABC, _skewed, _THREE | _Y),
    "skewed, fanned": Design("y ~ a + b", _skewed_and_fanned, {"a": (0.0, 2.0), "b": FAR, "y": (-4.0, 20.0)}),
    "heavy": Design(_ABC, _heavy, _THREE | _Y),
    "median": Design(_ABC, _fanned, _THREE | _Y, family=Quantile(0.5)),
    "median, heaped": Design(
        "y ~ a + b", _heaped, {"a": (18.0, 72.0), "b": FAR, "y": (0.0, 15.0)}, family=Quantile(0.5)
    ),
    "upper": Design(
        "y ~ a + b", _skewed_and_fanned, {"a": (0.0, 2.0), "b": FAR, "y": (-4.0, 20.0)}, family=Quantile(0.9)
    ),
    "expectile": Design(
        "y ~ a + b", _skewed_and_fanned, {"a": (0.0, 2.0), "b": FAR, "y": (-4.0, 20.0)},
        family=pr.families.Expectile(0.8),
    ),
    "response": Design(
        "y ~ a + b", _bent, _UNIT | {"y": (-4.0, 10.0)}, more={"private": "response"}
    ),
    "yes, wrong link": Design("y ~ a + b", _threshold, {"a": FAR, "b": FAR}, family="logistic"),
    "counts, wrong link": Design(
        "y ~ a + b", _visits, {"a": (0.0, 2.0), "b": FAR}, family=pr.families.Poisson(y_max=20)
    ),
    "yes, by group": Design("y ~ g * x", partial(_answers, _groups), {"x": (0.0, 1.0)}, _YES, family="logistic"),
    "counts, by group": Design("y ~ g * x", partial(_events, _groups), {"x": (0.0, 1.0)}, _YES, family=_COUNTS),
    "yes, mostly none": Design("y ~ a + b", partial(_answers, _mostly_none), _UNIT, family="logistic"),
    "counts, mostly none": Design("y ~ a + b", partial(_events, _mostly_none), _UNIT, family=_COUNTS),
    "yes, few far out": Design(
        "y ~ a + b", partial(_answers, _few_far_out), {"a": (0.0, 3.0), "b": FAR}, family="logistic"
    ),
    "counts, few far below": Design(
        "y ~ a + b", partial(_events, _few_far_below), {"a": (0.0, 12.0), "b": FAR}, family=_COUNTS
    ),
    "counts, skewed": Design(
        "y ~ age + ill + g", _illnesses, {"age": (0.0, 90.0), "ill": (0.0, 6.0)}, _YES, pr.families.Poisson(y_max=20)
    ),
    "classes, wrong link": Design(
        "y ~ a + b", _choices, {"a": FAR, "b": FAR}, {"y": list("uvw")}, family="multinomial"
    ),
}  # fmt: skip
"""By name; formulas are wrong for most of their records."""


def _chosen(rng: Generator, eta: Any, names: str) -> Any:
    """One of several levels, by log-odds of each, shape (n, K)."""
    return np.array(list(names))[(eta + rng.gumbel(size=eta.shape)).argmax(axis=1)]


def _three(rng: Generator, n: int) -> Rows:
    a, g = rng.standard_normal(n), _yes_no(rng, n, 0.3)
    yes = g == "y"
    eta = np.column_stack([np.zeros(n), 0.3 + 0.6 * a - 0.5 * yes, -0.5 - 0.4 * a + 0.4 * yes])
    return {"a": a, "g": g, "y": _chosen(rng, eta, "uvw")}


def _four(rng: Generator, n: int) -> Rows:
    """Levels of 52, 31, 12 and 5%, and an effect that is not linear in the log-odds."""
    a, b = rng.standard_normal(n), rng.random(n)
    eta = np.column_stack([np.zeros(n), -1 + b, -1.8 + 0.5 * a + 0.2 * a**2, -2.4 - 0.5 * a])
    return {"a": a, "b": b, "y": _chosen(rng, eta, "uvwx")}


ANSWERS: Final = {
    "three answers": Design("y ~ a + g", _three, {"a": FAR}, {"y": list("uvw"), **_YES}, family="multinomial"),
    "four answers": Design("y ~ a + b", _four, {"a": FAR, "b": (0.0, 1.0)}, {"y": list("uvwx")}, family="multinomial"),
    "yes, smoothed hinge": DESIGNS["yes, wrong link"]._replace(family=pr.SmoothedHinge()),
    "yes or no, smoothed hinge": DESIGNS["yes, by group"]._replace(family=pr.SmoothedHinge()),
}
"""Responses of several levels, and classifiers."""
