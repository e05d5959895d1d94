"""What the plan of a fit says is what the fit does, whatever option is given: over the whole table of options."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.options.table import accepted

N = 4_000

BASE = {"bounds": {"y": (-8, 10), "x": (-4, 4), "b": (0.1, 1.0)}, "levels": {"g": ["u", "v"]}, "mu": 4}

MODEL = {
    "mu": [{"mu": 2}],
    "mu_max": [{"mu": "b", "mu_max": 1.0}],
    "epsilon": [{"mu": None, "epsilon": 2.0}],
    "delta": [{"mu": None, "epsilon": 2.0, "delta": 1e-6}],
    "rho": [{"mu": None, "rho": 2.0}],
    "bounds": [{"bounds": {**BASE["bounds"], "x": (-6, 6)}}],
    "levels": [{"levels": {"g": ["u", "v", "w"]}}],
    "moments": [{"moments": {"x": (0.0, 1.0)}}],
    "schema": [{"schema": pr.Schema.declare(BASE["bounds"], BASE["levels"]), "bounds": None, "levels": None}],
    "scaling": [{"scaling": "private", "bounds": {"b": (0.1, 1.0)}}],
    "allow_leak": [{"allow_leak": ("levels",), "levels": None}],
    "family": [
        {"family": f} for f in (pr.Quantile(0.9), pr.Expectile(0.8), pr.Squared(), pr.Huber(c=1.345, scale=1.0))
    ],
    "offset": [{"offset": "b"}],
    "exposure": [{"exposure": "b", "family": pr.Poisson(y_max=10), "bounds": {**BASE["bounds"], "y": (0, 10)}}],
    "score_weights": [{"score_weights": how} for how in ("unit", "whitened", "likelihood")],
    "mechanism": [{"mechanism": "gaussian"}, {"mechanism": "laplace", "mu": None, "epsilon": 2.0}],
    "private": [{"private": "response"}],
    "id": [{"id": "who"}],
    "max_per_id": [{"id": "who", "max_per_id": 2}],
    "missing": [{"missing": how} for how in ("noise", "raise")],
    "rows": [{"rows": N}],
}
"""Values of a model's options, by the option they try."""

FIT = {
    "tuning": [{"tuning": "published"}],
    "inference": [{"inference": how} for how in ("between_lanes", ("sandwich", "random_scaling"), None)],
    "batch_size": [{"tuning": "published", "batch_size": 4}],
    "lanes": [{"lanes": k} for k in (8, 32, 64)],
    "rounds": [{"rounds": 10}, {"rounds": 40}],
    "step": [{"tuning": "published", "step": 0.3}],
    "alpha": [{"tuning": "published", "alpha": 0.7}],
    "measures": [{"measures": 0.1}],
    "start_params": [{"start_params": {"Intercept": 1.0, "x": 1.0, "g[T.v]": 0.0}}],
    "covariates": [{"covariates": "public"}],
    "like": [{"like": "earlier"}],
    "threads": [{"threads": 2}],
}
"""Values of a fit's options, by the option they try."""

ON_THE_WAY = {
    "seed",
    "order",
    "progress",
    "client",
    "checkpoint",
    "checkpoint_rows",
    "checkpoint_seconds",
    "checkpoint_trust",
}
"""Options of a fit that are no part of what it does: its noise, where it runs, what it shows and keeps on the way."""

ELSEWHERE = {"trust", "exog_names", "endog_name", "mended", "k_max", "per_person", "weights", "cluster", "epsilon_max"}
ELSEWHERE |= {"perturbation", "epochs", "radius", "average", "dataset"}
"""Options of other front doors, of a fit that goes on, of people of several rows (`tests/simulation/test_persons.py`),
of names of people (`tests/privacy/test_datasets.py`), or of the published chain (`tests/published/test_personal.py`)
and descent (`tests/published/descent`)."""


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x, b = rng.standard_normal(n), rng.choice([0.25, 0.5, 1.0], n)
    y = np.round(2 + x + 0.5 * rng.standard_normal(n))
    return pd.DataFrame({"x": x, "b": b, "y": y, "g": rng.choice(["u", "v"], n), "who": np.arange(n) // 2})


ALIKE = {"inference", "lanes", "missing", "rounds"}
"""Options of whose values one tells what the others do."""
CASES = [
    pytest.param(where, given, id=f"{name}-{k}", marks=[pytest.mark.thorough] if k and name in ALIKE else [])
    for where, table in (("model", MODEL), ("fit", FIT))
    for name, values in table.items()
    for k, given in enumerate(values)
]


def test_every_option_of_a_fit_is_tried():
    doors = {name for door in ("local.arrays", "local.formula", "local.start", "local.fit") for name in accepted(door)}
    assert doors == set(MODEL) | set(FIT) | ON_THE_WAY | ELSEWHERE


@pytest.mark.some(4)
@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning", "ignore::privreg.errors.PrivacyLeakWarning")
@pytest.mark.parametrize(("where", "given"), CASES)
def test_what_a_plan_says_is_what_the_fit_does(where, given):
    data = people()
    described = {k: v for k, v in {**BASE, **(given if where == "model" else {})}.items() if v is not None}
    asked = {k: people(500, 1) if k == "covariates" else v for k, v in given.items()} if where == "fit" else {}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x + g", data, **described)
    asked |= {"like": model.fit(seed=2, progress=False)} if "like" in asked else {}
    plan, res = model.plan(**asked), model.fit(seed=1, progress=False, **asked)
    statement, text = res.privacy, res.summary(details=True).as_text()
    assert plan.rows == N == res.nobs
    assert plan.noise_sd == statement.noise_sd
    assert plan.mechanism == statement.noise
    assert plan.mu == pytest.approx(statement.total_mu, rel=1e-12)
    assert plan.to_dict()["mechanism"]["name"] == statement.mechanism.lower()
    assert (f" in {plan.groups} groups" in " ".join(text.split())) == (plan.groups > 1)
    planned = plan.rounds
    if asked.get("tuning") == "published":
        assert planned.empty
        return
    held, fixed = res.rounds, planned[~planned["optional"]]
    whole = len(held) > len(fixed)  # whether optional rounds were held
    expected = planned if whole else fixed
    assert held["role"].tolist() == expected["role"].tolist()
    early = expected["role"].to_numpy() != "main"
    compared = early if whole else np.ones(len(held), dtype=bool)  # optional rounds make main rounds shorter
    assert held["records"].to_numpy()[compared].tolist() == expected["records"].to_numpy()[compared].tolist()
    assert held["records"].sum() == N
