"""Seeded fits whose numbers are kept, so that a change of structure can show that it changed none.

``python -m tests.golden`` writes ``tests/golden.json`` anew, which is for changes that are meant to change numbers.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import privreg as pr
from tests.databases import sqlite

PATH = Path(__file__).with_name("golden.json")
N = 3000
BOUNDS = {"y": (0.0, 10.0), "x": (-1.0, 1.0), "z": (-3.0, 3.0), "years": (0.5, 4.0), "count": (0.0, 8.0)}
LEVELS = {"g": ["a", "b", "c"], "yes": ["no", "yes"], "kind": ["u", "v", "w"]}
DECLARED: dict[str, Any] = {"bounds": BOUNDS, "levels": LEVELS}


@cache
def rows() -> pd.DataFrame:
    """Made-up people."""
    rng = np.random.default_rng(20_260_101)
    out = pd.DataFrame({"x": rng.uniform(-1, 1, N), "z": np.clip(rng.normal(size=N), -3, 3)})
    out["g"] = rng.choice(LEVELS["g"], N, p=[0.5, 0.3, 0.2])
    out["years"] = rng.uniform(0.5, 4, N)
    eta = 0.5 * out["x"] - 0.3 * out["z"] + 0.4 * (out["g"] == "b")
    out["y"] = np.clip(5 + eta + rng.normal(0, 0.7, N), 0, 10)
    out["yes"] = np.where(rng.uniform(size=N) < 1 / (1 + np.exp(-eta)), "yes", "no")
    out["kind"] = rng.choice(LEVELS["kind"], N)
    out["count"] = np.minimum(rng.poisson(np.exp(0.3 * eta)), 8).astype(float)
    out["budget"] = rng.choice([0.5, 1.0, 2.0], N)
    out["who"] = rng.integers(0, 2500, N)
    return out


def gappy() -> pd.DataFrame:
    """The same with a fifth of the x missing."""
    out = rows().copy()
    out.loc[out.index % 5 == 2, "x"] = np.nan
    return out


def local(formula: str = "y ~ x + z + g", data: Any = None, fit: Any = None, **model: Any) -> list[float]:
    """Numbers of a fit of people's reports."""
    declared = {**DECLARED, **model} if "epsilon" in model or "rho" in model else {**DECLARED, "mu": 2, **model}
    made = pr.PrivateOnlineRegression.from_formula(formula, rows() if data is None else data, **declared)
    return numbers(made.fit(**{"seed": 7, "progress": False, **(fit or {})}))


def numbers(res: Any) -> list[float]:
    """Estimates, standard errors and limits."""
    out = [np.asarray(res.params, dtype=float).ravel()]
    if hasattr(type(res), "bse"):
        out += [np.asarray(res.bse, dtype=float).ravel(), np.asarray(res.conf_int(), dtype=float).ravel()]
    return np.concatenate(out).tolist()


def published(**fit: Any) -> list[float]:
    """Numbers of the published chain."""
    return local(fit={"tuning": "published", **fit})


def streamed() -> list[float]:
    """A stream of unknown length."""
    stream = pr.PrivateOnlineRegression.from_formula("y ~ x + g", mu=2, **DECLARED).start(seed=7)
    for a in range(0, 6 * N, 700):
        stream.update(rows().iloc[np.arange(a, min(a + 700, 6 * N)) % N])
    return numbers(stream.results())


def arrays() -> list[float]:
    """The front door of arrays."""
    data = rows()
    x = np.column_stack([np.ones(N), data["x"], data["z"]])
    bounds = {"y": (0, 10), "x": (-1, 1), "z": (-3, 3)}
    model = pr.PrivateOnlineRegression(
        data["y"].to_numpy(), x, exog_names=["const", "x", "z"], endog_name="y", bounds=bounds, mu=2
    )
    return numbers(model.fit(seed=7, progress=False))


def wide(**fit: Any) -> list[float]:
    """More than 100 coefficients."""
    rng = np.random.default_rng(5)
    data = rows().assign(many=rng.integers(0, 120, N).astype(str))
    levels = {**LEVELS, "many": [str(k) for k in range(120)]}
    return local("y ~ x + many", data, {"tuning": "published", **fit}, levels=levels, mu=8)


def custom() -> list[float]:
    """A score of the user's own."""

    def score(eta: float, y: float) -> float:
        return float(np.tanh(eta - y))

    return local(family=pr.families.custom("tanh", score, 1.0))


def means(**how: Any) -> list[float]:
    """Means and frequencies."""
    declared = {**DECLARED, **how} if "mu" in how else {**DECLARED, "epsilon": 2, **how}
    return numbers(pr.means.estimate(rows(), "x + z + C(g) ~ 1", seed=7, missing="raise", **declared))


def curator(**fit: Any) -> list[float]:
    """A trusted curator's fit."""
    model = pr.PrivateOnlineRegression.from_formula("y ~ x + g", rows(), trust="central", mu=2, **DECLARED)
    return numbers(model.fit(seed=7, progress=False, **fit))


def federated(**how: Any) -> list[float]:
    """Silos."""
    model = pr.federated.FederatedRegression.from_formula(
        "yes ~ x + z", [rows().iloc[i::30] for i in range(30)], mu=4, rounds=5, **DECLARED, **how
    )
    return numbers(model.fit(seed=7, progress=False))


def planned() -> list[float]:
    """A plan."""
    plan = pr.plan("y ~ x + z + g", mu=1, width={"x": 0.2}, params={"Intercept": 5.0}, scale=0.7, **DECLARED)
    return [float(plan.n)]


def source(kind: str) -> list[float]:
    """The same rows from a file, a table or a database."""
    wanted = ["y", "x", "z", "g"]
    frame = rows()[wanted]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"rows.{kind}"
        match kind:
            case "csv":
                frame.to_csv(path, index=False)
                return local(data=path)
            case "parquet":
                frame.to_parquet(path, index=False)
                return local(data=path)
            case "mapping":
                return local(data={name: frame[name].to_numpy() for name in wanted})
            case "arrow":
                import pyarrow as pa

                return local(data=pa.Table.from_pandas(frame))
            case "polars":
                import polars

                return local(data=polars.DataFrame({name: frame[name].tolist() for name in wanted}))
            case "duckdb":
                import duckdb

                connection = duckdb.connect()
                connection.register("people", frame)
                return local(data=pr.sql("SELECT * FROM people", connection), rows=N)
            case "sql":
                connection = sqlite(path)
                frame.to_sql("people", connection, index=False)
                return local(data=pr.sql("SELECT * FROM people", connection), rows=N)
    raise ValueError(kind)


def family(name: str) -> list[float]:
    """A family with a response of its kind."""
    kinds = {
        "logistic": ("yes", "logistic"),
        "hinge": ("yes", "hinge"),
        "smoothed_hinge": ("yes", pr.SmoothedHinge()),
        "multinomial": ("kind", "multinomial"),
        "poisson": ("count", pr.Poisson(8)),
        "expectile": ("y", pr.Expectile(0.7)),
        "quantile": ("y", pr.Quantile(0.9)),
        "squared": ("y", "squared"),
        "huber fixed": ("y", pr.Huber(1.345, scale=0.7)),
    }
    response, made = kinds[name]
    return local(f"{response} ~ x + z + g", family=made)


CASES: dict[str, Callable[[], list[float]]] = {
    "default": local,
    **{
        f"family {name}": (lambda name=name: family(name))
        for name in (
            *("logistic", "hinge", "smoothed_hinge", "multinomial", "poisson"),
            *("expectile", "quantile", "squared", "huber fixed"),
        )
    },
    "family custom": custom,
    "epsilon": lambda: local(epsilon=2),
    "epsilon, delta": lambda: local(epsilon=2, delta=1e-6),
    "rho": lambda: local(rho=0.5),
    "laplace": lambda: local(epsilon=2, mechanism="laplace"),
    "randomised response": lambda: local("yes ~ 1", family="logistic", epsilon=2),
    "no covariates": lambda: local("y ~ 1", family=pr.Quantile(0.5)),
    "not private": lambda: local(mu=None),
    "response": lambda: local(private="response"),
    "response, logistic": lambda: local("yes ~ x + g", family="logistic", private="response"),
    "personal budgets": lambda: local(mu="budget", mu_max=2.0),
    "ids": lambda: local(id="who", max_per_id=1),
    "gaps": lambda: local(data=gappy(), missing="drop"),
    "offset": lambda: local("count ~ z + g", family=pr.Poisson(8), offset="x"),
    "robust counts": lambda: local("count ~ x + g", family=pr.Poisson(8, c=1.5)),
    "exposure": lambda: local("count ~ x + g", family=pr.Poisson(8), exposure="years"),
    "private scales": lambda: local(
        "y ~ x + z", bounds=None, scaling="private", levels=None, data=rows()[["y", "x", "z"]]
    ),
    "unit weights": lambda: local(score_weights="unit"),
    "start": lambda: local(fit={"start_params": [5, 0, 0, 0, 0]}),
    "lanes": lambda: local(fit={"lanes": 8}),
    "threads": lambda: local(fit={"threads": 2}),
    "measures": lambda: local(fit={"measures": 0.2}),
    "splines": lambda: local("y ~ bs(x, knots=[0], lower_bound=-1, upper_bound=1) + z:g + I(z ** 2)"),
    **{
        f"inference {name}": (lambda name=name: local(fit={"inference": name}))
        for name in ("random_scaling", "batch_means", "block_bootstrap", "plug_in", "path_curvature")
    },
    "inference anytime": lambda: local(data=pd.concat([rows()] * 15, ignore_index=True), fit={"inference": "anytime"}),
    "published": published,
    "published plug-in": lambda: published(inference="plug_in"),
    "published batch means": lambda: published(inference=("batch_means", "block_bootstrap_t")),
    "published central plug-in": lambda: published(inference="plug_in_central"),
    "published wide": wide,
    "arrays": arrays,
    "stream": streamed,
    **{
        f"source {kind}": (lambda kind=kind: source(kind))
        for kind in ("csv", "parquet", "mapping", "arrow", "polars", "duckdb", "sql")
    },
    "means": means,
    "means gaussian": lambda: means(mu=1),
    "means by group": lambda: means(by="kind"),
    "curator": curator,
    "curator, descent": lambda: curator(tuning="published", lanes=8),
    "curator, output": lambda: curator(tuning="published", perturbation="output", lanes=1),
    "federated": federated,
    "federated geodp": lambda: federated(mechanism="geodp"),
    "plan": planned,
    "two collectors": lambda: local(trust="two_collectors"),
    "two collectors, logistic": lambda: local("yes ~ x + z + g", family="logistic", trust="two_collectors"),
}


def main() -> None:
    """Write the numbers that changed; the others stay as they are to the last digit."""
    before = json.loads(PATH.read_text())
    kept = {name: make() for name, make in CASES.items()}
    changed = [name for name, new in kept.items() if not same(new, before.get(name, []))]
    PATH.write_text(json.dumps({**before, **{name: kept[name] for name in changed}}, indent=1) + "\n")
    print(f"{len(kept)} fits, of which these changed: {', '.join(changed) or 'none'}")


def same(new: list[float], old: list[float]) -> bool:
    """Whether numbers agree.

    Last bits of LAPACK depend on the processor, and twenty rounds amplify them; another draw of noise moves an estimate
    by a part of its standard error.
    """
    return len(new) == len(old) and bool(np.allclose(new, old, rtol=1e-7, atol=0.0, equal_nan=True))


if __name__ == "__main__":
    main()
