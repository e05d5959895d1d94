"""No line that the package prints is wider than a terminal of 80 columns, whatever the model and its names."""

import unicodedata

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from tests.results.test_summary import check_latex

LONG = "very_long_column_name_indeed"
LEVELS = {
    LONG: ["b level", "a level that goes on and on"],
    "g": ["a", "b", "c"],
    "h": ["north west", "south east", "the middle of nowhere"],
    "place": ["nord", "süd", "東京都千代田区", "Nîmes"],
    "three": ["car", "bus", "walk"],
    "six": ["car", "bus", "walk", "bicycle", "tram or light rail, by any operator at all", "none of these, or several"],
}
MANY = [f"v{i:02d}" for i in range(40)]
BOUNDS = {"x": (-1, 1), "z": (0, 10), "другая": (-1, 1), "y": (-5, 5), "count": (0, 10), "won": (0, 1)}
BOUNDS |= dict.fromkeys(MANY, (-1, 1))
ALL = ("between_lanes", "random_scaling", "batch_means", "block_bootstrap", "anytime")


def people(n=6000):
    rng = np.random.default_rng(0)
    data = {name: rng.uniform(low, high, n) for name, (low, high) in BOUNDS.items()}
    data |= {name: rng.choice(levels, n) for name, levels in LEVELS.items()}
    data["count"], data["won"] = rng.poisson(1.0, n).clip(0, 10), (data["x"] + rng.normal(size=n) > 0).astype(float)
    return pd.DataFrame(data)


DATA = people()
HUBER = pr.Huber(scale=1.0)
MODELS = {
    "huber": ("y ~ x + z + g", {}, {}),
    "logistic": ("won ~ x + g", {"family": "logistic"}, {}),
    "poisson": ("count ~ x", {"family": pr.Poisson(10)}, {}),
    "quantile": ("y ~ x + z", {"family": pr.Quantile(0.9)}, {}),
    "three levels": ("three ~ x + h", {"family": "multinomial"}, {}),
    "six levels": (f"six ~ x + {LONG}", {"family": "multinomial"}, {}),
    "published": ("y ~ x + z", {"family": HUBER}, {"tuning": "published", "inference": ("plug_in_central",)}),
    "all methods": ("y ~ x + z", {}, {"inference": ALL}),
    "no inference": ("y ~ x + place", {}, {"inference": None}),
    "a seed": ("y ~ x", {}, {"seed": 1}),
    "no privacy": ("y ~ x", {"mu": None}, {}),
    "epsilon, delta": ("y ~ x", {"mu": None, "epsilon": 1, "delta": 1e-6}, {}),
    "pure": ("y ~ x", {"mu": None, "epsilon": 1}, {}),
    "curator": ("y ~ x + z", {"family": HUBER, "trust": "central"}, {}),
    "missing": ("y ~ x", {"missing": "noise"}, {}),
    "response": ("y ~ x", {"private": "response"}, {}),
    "interactions": (f"y ~ {LONG}:h + C(g, Treatment('b')):h + x:{LONG}", {}, {}),
    "scripts": ("y ~ place + другая", {}, {}),
    "splines": ("y ~ bs(z, knots=(3, 6), degree=3, lower_bound=0, upper_bound=10) + np.where(x > 0, z, -z)", {}, {}),
    "forty": ("y ~ " + " + ".join(MANY[:39]), {}, {}),
}


def declared(formula, names):
    return {name: value for name, value in names.items() if name in formula} or None


def fitted(name):
    formula, options, how = MODELS[name]
    given = {"mu": 1} | options
    if "epsilon" in given:
        del given["mu"]
    model = pr.PrivateOnlineRegression.from_formula(
        formula, DATA, bounds=declared(formula, BOUNDS), levels=declared(formula, LEVELS), **given
    )
    return model.fit(progress=False, **how)


def columns(line):
    """Columns that a terminal gives to a line: two for a wide character, none for what is put over another."""
    wide = [unicodedata.east_asian_width(c) in {"W", "F"} for c in line]
    over = [unicodedata.combining(c) > 0 for c in line]
    return len(line) + sum(wide) - sum(over)


def check(text):
    for line in str(text).split("\n"):
        assert columns(line) <= 80, line


@pytest.mark.some(1)
@pytest.mark.parametrize("name", MODELS)
def test_summaries_fit_a_terminal_and_are_sound_latex(name):
    res = fitted(name)
    summary = res.summary()
    check(summary.as_text())
    check(res.privacy)
    check(pr.compare([res, res], names=["a first result with quite a name", "second"]))
    latex = summary.as_latex()
    check_latex(latex)
    check_latex(pr.compare([res]).as_latex())
    if name == "scripts":
        table = [line for line in summary.as_text().split("\n") if line.startswith("place[")]
        assert len({columns(line) for line in table}) == 1  # the numbers stay in their columns
    assert latex.isascii() or "place" in MODELS[name][0]
    assert ("longtable" in latex) == (name in {"forty", "six levels"})


@pytest.mark.thorough
def test_tests_and_audits_fit_a_terminal():
    long = fitted("interactions")
    check(long.t_test(np.eye(len(long.params))))
    check(long.wald_test(np.eye(len(long.params))[:2]))
    check(fitted("logistic").privacy.verify(n=2000))


@pytest.mark.thorough
def test_means_plans_streams_and_silos_fit_a_terminal():
    names = ("x", LONG, "h")
    bounds, levels = {"x": (-1, 1)}, {k: LEVELS[k] for k in names[1:]}
    check(
        pr.means.estimate(
            DATA, f"x + {LONG} + h ~ 1", epsilon=1, progress=False, bounds=bounds, levels=levels
        ).summary()
    )
    public = {"bounds": {**bounds, "y": (-5, 5)}, "levels": levels}
    check(pr.plan(f"y ~ x*{LONG} + h", mu=1, n=9000, scale=1, **public))
    stream = pr.PrivateOnlineRegression.from_formula(f"y ~ x*{LONG} + h", None, mu=1, rows=len(DATA), **public).start()
    stream.update(DATA)
    check(stream.results().summary())
    silos = [DATA.iloc[i::20] for i in range(20)]
    six = {"bounds": bounds, "levels": {"six": LEVELS["six"]}}
    federated = pr.federated.FederatedRegression.from_formula("six ~ x", silos, family="multinomial", mu=4, **six)
    summary = federated.fit(progress=False).summary()
    check(summary)
    check_latex(summary.as_latex())


@pytest.mark.thorough
def test_several_notes_are_named_as_a_list():
    data = DATA.assign(**{LONG: np.where(np.arange(len(DATA)) % 30, *LEVELS[LONG])})
    model = pr.PrivateOnlineRegression.from_formula(
        f"y ~ x*{LONG}", data, mu=1, bounds={"x": (-1, 1), "y": (-5, 5)}, levels={LONG: LEVELS[LONG]}
    )
    law = " ".join(model.fit(progress=False).summary().as_text().split())
    assert "see notes [1] and [2]" in law or "see notes [1], [2] and [3]" in law
