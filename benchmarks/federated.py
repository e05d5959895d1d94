"""Federated fits: guarantees verified by an audit, accuracy at the same guarantee, attacks, and geometry's claims.

``python -m benchmarks.federated [audit|accuracy|geometry|convergence|case_study] [--again] [--quick] [--only DATA MU]``

audit: lower limits of μ from a threshold test with Clopper–Pearson limits (alpha = 1e-6) on the transcripts of all
rounds of two silos whose updates lie as far apart as updates can, for every mechanism; and for published schemes,
accounted as published, which have to be caught. 20,000 transcripts each. -> federated_audit.csv

accuracy: 20 seeds. scikit-learn's bundled digits (8×8 pixels, softmax regression, 585 coefficients, 400 silos of 3
images, 5 rounds) and the reconstructed US insurance data (who smokes: 6 coefficients, 400 silos of 50 people, 10
rounds). All private
mechanisms have the same guarantee, μ per silo over all rounds. `attack`: an attacker who sees a silo's reports and all
models, and is handed the silo's data and another's, guesses by the linear test which of the two was fitted (50 silos a
seed); `attack_limit` is what the guarantee allows, Φ(μ/2). -> federated_accuracy.csv

geometry: E‖report − update‖² over the clip's square, and the cosine of the mean of 400 reports with the update, for
random directions of length clip/2. `attenuation` is the log of what is left of the last coordinate's mean.
-> federated_geometry.csv

convergence: predicted and simulated mean square errors of least squares in silos with one Hessian; `z` is the
difference over the standard error of the simulation. -> federated_convergence.csv

case_study: printed numbers beside computed ones. -> federated_case_study.csv

Large images and deep networks (MNIST, CIFAR, ResNet), on which GeoDP and LDPVec were published, are out of scope: the
package fits linear models. A stored table is left alone; --again replaces it. --quick runs little, stores nothing.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import binom
from tqdm import tqdm

import privreg as pr
from benchmarks import federated_schemes as schemes
from benchmarks.papers.duan import case_study
from benchmarks.store import read_table, save_table
from privreg import Budget
from privreg.audit.neighbours import audit
from privreg.errors import OptionError, shown
from privreg.federated import FederatedRegression, UpdateMechanism, update_mechanism
from privreg.privacy.ledger import Release
from privreg.privacy.noise import NoiseStream, seeded_key
from privreg.privacy.scalar import share
from privreg.published.federated import plan as plans
from privreg.published.federated.client import Client, read_silo
from privreg.published.federated.reports import transcripts
from privreg.published.federated.results import make_results, make_statement

PRIVATE = {
    "gaussian": {"mechanism": "gaussian"},
    "privunit": {"mechanism": "privunit"},
    "geodp": {"mechanism": "geodp", "debias": False},
    "geodp, beta 0.1": {"mechanism": "geodp", "debias": False, "beta": 0.1},
    "ldpvec": {"mechanism": "ldpvec", "debias": False},
    "ldpvec, beta 0.1": {"mechanism": "ldpvec", "debias": False, "beta": 0.1},
}
SEEDS, ALPHA = 20, 1e-6


# --- audit -----------------------------------------------------------------------------------------------


def audits(quick: bool) -> pd.DataFrame:
    n, rows = 2_000 if quick else 20_000, []
    for mu in (1.0, 4.0):
        for rounds in (1, 4):
            one = share(Budget.declare(mu=mu), rounds)
            for name, options in {**PRIVATE, "laplace": {"mechanism": "laplace"}}.items():
                made = update_mechanism(options["mechanism"], one, 5, 1.0, **_rest(options))
                found = audit(*transcripts(made, rounds, n, seed=1), alpha=ALPHA, direction=np.ones(1))
                rows.append(_audited(name, rounds, "mu", mu, found.lower))
                if made.budget.pure:  # both have to hold
                    rows.append(_audited(name, rounds, "epsilon", rounds * made.budget.epsilon, found.epsilon_lower))
    rng = np.random.Generator(np.random.PCG64(1))
    e, rounds = 5, 4
    published = {
        f"PUBLISHED: noise on the last of {e} gradients, accounted at mu": (
            math.sqrt(rounds), rounds, schemes.last_noise(1.0, e, rounds, n, rng), e * math.sqrt(rounds)),
        "PUBLISHED: LDPVec with raw magnitude": (1.0, 1, schemes.raw_magnitude(1.0, 5, n, rng), math.inf),
        "PUBLISHED: GeoDP, costs averaged": (1.0, 1, schemes.averaged_costs(1.0, 5, n, rng), math.sqrt(2.0)),
        "PUBLISHED: GeoDP, angle noise over B = 8": (1.0, 1, schemes.divided_by_batch(1.0, 5, 8, n, rng), 8.0),
    }  # fmt: skip
    for name, (claimed, times, reports, true) in published.items():
        found = audit(*reports, alpha=ALPHA, direction=np.ones(1))
        rows.append(_audited(name, times, "mu", claimed, found.lower) | {"true": true})
    return pd.DataFrame(rows)


def _rest(options: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in options.items() if k != "mechanism"}


def _audited(name: str, rounds: int, unit: str, claimed: float, lower: float) -> dict[str, Any]:
    verdict = "within the claim" if lower <= claimed else "CAUGHT"
    return {
        "scheme": name, "rounds": rounds, "unit": unit, "claimed": round(claimed, 4), "lower": round(lower, 4),
        "verdict": verdict, "true": round(claimed, 4),
    }  # fmt: skip


# --- accuracy and attacks --------------------------------------------------------------------------------


def digits(seed: int) -> dict[str, Any]:
    from sklearn.datasets import load_digits

    images = load_digits()
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(images.target))
    x, y = np.column_stack([np.ones(len(order)), images.data[order]]), images.target[order].astype(str)
    names = ["const", *(f"pixel{j + 1}" for j in range(64))]
    members, others = [np.arange(i, 1200, 400) for i in range(400)], [np.arange(1200 + i, 1350, 50) for i in range(50)]
    options = {
        "bounds": dict.fromkeys(names[1:], (0, 16)), "levels": {"y": [str(k) for k in range(10)]},
        "family": "multinomial", "step": 0.5, "rounds": 5,
    }  # fmt: skip
    wide = {name: options for name, options in PRIVATE.items() if "beta" not in options}
    test = np.arange(1350, len(y))
    held = {"x": x, "y": y, "names": names[1:], "members": members, "others": others, "test": test}
    return held | {"options": options, "private": wide}


def insurance(seed: int) -> dict[str, Any]:
    people = pr.datasets.us_insurance(25_000, seed=1000 + seed, coding="integers")
    names = ["age", "bmi", "children", "gender", "charges"]
    names = [n for n in names if n in people.columns]
    schema = pr.datasets.us_insurance_schema("integers")
    x = np.column_stack([np.ones(len(people)), people[names].to_numpy(dtype=float)])
    y = people["smoker"].to_numpy(dtype=float)
    bounds = {n: schema["bounds"].get(n, (0, 1)) for n in names}
    members, others = (
        [np.arange(i, 20_000, 400) for i in range(400)],
        [np.arange(20_000 + i, 22_500, 50) for i in range(50)],
    )
    options = {"bounds": bounds, "family": "logistic", "rounds": 10}
    test = np.arange(22_500, len(y))
    held = {"x": x, "y": y, "names": names, "members": members, "others": others, "test": test}
    return held | {"options": options, "private": PRIVATE}


DATA = {"digits": digits, "insurance": insurance}


def one_fit(held: dict[str, Any], mu: float | None, options: dict[str, Any], seed: int) -> tuple[float, int, int]:
    """Accuracy on the test set, and how often the attacker was right, of how many guesses."""
    x, y = held["x"], held["y"]
    model, other = (
        FederatedRegression.from_formula(
            f"y ~ {' + '.join(held['names'])}",
            [{"y": y[i], **dict(zip(held["names"], x[i][:, 1:].T, strict=True))} for i in silos],
            mu=mu,
            missing="raise",  # all records can be used, which no report needs to tell
            **held["options"],
            **options,
        )
        for silos in (held["members"], held["others"])
    )
    plan = model.plan
    assert model._sources is not None
    assert other._sources is not None
    clients = [Client(plan, *read_silo(plan, s, i)) for i, s in enumerate(model._sources, 1)]
    strangers = [Client(plan, *read_silo(plan, s, i)) for i, s in enumerate(other._sources, 1)]
    stream = NoiseStream(seeded_key(seed, "federated benchmark"), plan.mechanism.width)
    state, told = plans.begin(plan), np.zeros(len(strangers))
    for _ in range(plan.rounds):
        reports = []
        for client in clients:
            reports.append(client.report(state.theta, stream.peek()[0]))
            stream.advance(1)
        for i, stranger in enumerate(strangers):  # the likelihood ratio of additive noise, a linear test for the others
            mine, theirs = (plan.mechanism.moments(c.update(state.theta))[0] for c in (clients[i], stranger))
            told[i] += (mine - theirs) @ (reports[i] - 0.5 * (mine + theirs))
        state = plans.step(plan, state, reports)
    res = make_results(plan, state, make_statement(plan, Release(0, plan.total_mu), "simulated", seeded=True))
    guess = res.predict(pd.DataFrame(x[held["test"], 1:], columns=held["names"]), which="class").to_numpy()
    return float(np.mean(guess == y[held["test"]])), int(np.sum(told > 0)), len(told)


def accuracy(quick: bool, only: tuple[str, float] | None) -> Iterator[pd.DataFrame]:
    cells: list[tuple[str, float]] = [("insurance", 1.0), ("insurance", 4.0), ("digits", 8.0)]
    for name, mu in cells:
        if only is not None and (name, mu) != only:
            continue
        seeds = 2 if quick else SEEDS
        found: dict[str, list[tuple[float, int, int]]] = {}
        with tqdm(total=seeds, desc=f"{name}, mu {mu:g}", unit=" seeds") as bar:
            for seed in range(1, seeds + 1):
                held = DATA[name](seed)
                for method, options in {"no noise": {"mechanism": "gaussian"}, **held["private"]}.items():
                    own = None if method == "no noise" else mu
                    found.setdefault(method, []).append(one_fit(held, own, options, seed))
                bar.update()
        commonest = pd.Series(held["y"][held["test"]]).value_counts(normalize=True).iloc[0]
        rows = []
        for method, runs in found.items():
            shares, right, tried = np.array([r[0] for r in runs]), sum(r[1] for r in runs), sum(r[2] for r in runs)
            limit = 1.0 if method == "no noise" else float(ndtr(mu / 2))
            rows.append({
                "data": name, "mu": math.inf if method == "no noise" else mu, "mechanism": method, "seeds": seeds,
                "accuracy": shares.mean(), "se": shares.std(ddof=1) / math.sqrt(seeds), "low": shares.min(),
                "high": shares.max(), "commonest_class": commonest, "attack": right / tried, "attack_limit": limit,
                "p_above_limit": 1.0 if limit == 1.0 else float(binom.sf(right - 1, tried, limit)),
            })  # fmt: skip
        yield pd.DataFrame(rows)


# --- geometry --------------------------------------------------------------------------------------------


def geometry(quick: bool) -> pd.DataFrame:
    rows = []
    rng = np.random.Generator(np.random.PCG64(1))
    directions, silos = 2 if quick else 10, 400
    for size in (2, 4, 16, 64):
        for mu in (0.5, 1.0, 4.0, 16.0, 64.0):
            for name, options in PRIVATE.items():
                m = update_mechanism(options["mechanism"], Budget.declare(mu=mu), size, 1.0, **_rest(options))
                errors, cosines = [], []
                for _ in range(directions):
                    u = rng.standard_normal(size)
                    u *= 0.5 / np.linalg.norm(u)
                    errors.append(m.mean_square(u))
                    mean = np.mean([m.randomise(u, rng.standard_normal(m.width)) for _ in range(silos)], axis=0)
                    cosines.append(mean @ u / np.linalg.norm(mean) / np.linalg.norm(u))
                try:
                    update_mechanism(
                        options["mechanism"], Budget.declare(mu=mu), size, 1.0, beta=options.get("beta", 1.0)
                    )
                    undone = "yes" if m.geometric else "not needed"
                except OptionError:
                    undone = "refused"
                rows.append({
                    "d": size, "mu": mu, "mechanism": name, "angle_sd": m.angle_sd if m.geometric else math.nan,
                    "attenuation": -0.5 * m.angle_sd**2 * (size - 1) if m.geometric else 0.0, "can_be_undone": undone,
                    "mean_square": float(np.mean(errors)), "cosine_of_mean": float(np.mean(cosines)),
                })  # fmt: skip
    return pd.DataFrame(rows)


# --- convergence -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Convergence:
    """Predicted errors, internal units. Made by :func:`predicted_error`."""

    noise: float  # Variance that the mean of the silos' reports adds in one round, summed over coordinates
    # Rows are rounds, from 0: ``squared_bias`` (what is left of the start), ``variance`` and ``mse`` of the model,
    # summed over coordinates
    table: pd.DataFrame
    averaged: float  # Mean square error of the mean of the models of the second half of the rounds


def predicted_error(
    mechanism: UpdateMechanism,
    *,
    rounds: int,
    coefficients: int | None = None,
    silos: int | None = None,
    weights: ArrayLike | None = None,
    curvature: ArrayLike = 0.0,
    step: float = 0.0,
    local_steps: int = 1,
    start: ArrayLike = 0.0,
    update_norm: float = 0.0,
) -> Convergence:
    """Predict the error of a federated fit of a quadratic loss from its public numbers.

    Parameters
    ----------
    mechanism : UpdateMechanism
        An unbiased one: what "geodp" and "ldpvec" do to an update's mean has no such recursion.
    rounds : int
    coefficients : int
        Numbers d of an update that are the model's, of all by default: the count of unusable records is beside them.
    silos : int
        Silos with equal weights; or `weights`.
    weights : array_like, shape (silos,)
        Public weights, with any sum.
    curvature : float or array_like, shape (d,)
        Eigenvalues of the loss's Hessian, internal units, the same in every silo. 0: rounds only add noise.
    step : float
        Local step.
    local_steps : int
        Local steps E of a round.
    start : float or array_like, shape (d,)
        Distance of the first model from the minimum along each eigenvector.
    update_norm : float
        ℓ2 norm of a typical update, for mechanisms whose noise depends on it; PrivUnit's is largest at 0.

    Raises
    ------
    OptionError
        If the mechanism is biased, or silos and weights are both or neither given.

    Notes
    -----
    Exact where every silo's loss is quadratic with this Hessian, no update is clipped and the noise doesn't depend on
    the update. Clipping slows the pull and adds a bias that no public number tells.

    References
    ----------
    Duan (2025), PhD thesis, section 6.1, with exact variances in place of the printed ones.

    Examples
    --------
    >>> from privreg import Budget
    >>> from privreg.federated import update_mechanism
    >>> m = update_mechanism("gaussian", Budget.declare(mu=0.5), 2, 1.0)
    >>> found = predicted_error(m, rounds=2, silos=16)
    >>> found.noise, found.table["mse"].tolist()
    (2.0, [0.0, 2.0, 4.0])
    """
    if (silos is None) == (weights is None):
        raise OptionError("give either silos= (equal weights) or weights=, the public weights of all silos.")
    if mechanism.geometric:
        raise OptionError(
            f"mechanism={mechanism.name!r} is biased, and its error is no such recursion; take 'gaussian', 'privunit', "
            "'laplace' or 'piecewise', or run a simulation."
        )
    if rounds < 1 or local_steps < 1:
        raise OptionError(f"rounds={shown(rounds)} and local_steps={shown(local_steps)} must be 1 or more.")
    w = np.full(silos or 1, 1.0 / (silos or 1)) if weights is None else np.asarray(weights, dtype=np.float64)
    w = w / w.sum()
    size = mechanism.size
    d = size if coefficients is None else coefficients
    update = np.full(size, update_norm / math.sqrt(size))
    noise = float(w @ w) * mechanism.mean_square(update) * d / size
    kept = np.broadcast_to((1.0 - step * np.asarray(curvature, dtype=np.float64)) ** local_steps, (d,))
    begun = np.broadcast_to(np.asarray(start, dtype=np.float64), (d,))
    t = np.arange(rounds + 1)[:, None]
    squared_bias = ((kept**t * begun) ** 2).sum(axis=1)
    added = np.cumsum(kept ** (2 * t), axis=0)[:-1]  # Σ q^{2s} over the noise of the rounds so far
    variance = np.append(0.0, noise / d * added.sum(axis=1))
    table = pd.DataFrame({"squared_bias": squared_bias, "variance": variance, "mse": squared_bias + variance})
    half = t[1 + rounds // 2 :]
    bias = np.mean(kept**half, axis=0) * begun
    since = half - np.arange(1, rounds + 1)  # rounds from each noise to each model
    shares = np.where(since >= 0, 1.0, 0.0)[..., None] * kept ** np.maximum(since, 0)[..., None]
    averaged = float(np.sum(bias**2) + noise / d * np.sum(shares.mean(axis=0) ** 2))
    return Convergence(noise, table.rename_axis("round"), averaged)


def convergence(quick: bool) -> pd.DataFrame:
    """Least squares in silos with the same orthogonal design, clip wide enough that nothing is clipped."""
    rows = []
    silos, rounds, steps, step, records = 40, 12, 3, 0.2, 8
    runs = 50 if quick else 150
    x = np.column_stack(
        [np.ones(records), *(np.tile(np.repeat([-1.0, 1.0], 2**k), records // 2 ** (k + 1)) for k in (0, 1))]
    )
    truth = np.array([0.1, -0.2, 0.15])
    for name in ("gaussian", "privunit", "laplace", "piecewise"):
        for weights in (None, [1.0] * 20 + [3.0] * 20):
            rows = {"a": x[:, 1], "b": x[:, 2], "y": x @ truth}
            model = FederatedRegression.from_formula(
                "y ~ a + b", [{c: v.copy() for c, v in rows.items()} for _ in range(silos)], mu=30.0,
                bounds={"a": (-1, 1), "b": (-1, 1), "y": (-1, 1)}, family="squared", rounds=rounds, local_steps=steps,
                step=step, clip=1.0, weights=weights, mechanism=name,
            )  # fmt: skip
            said = predicted_error(
                model.plan.mechanism, rounds=rounds, coefficients=len(truth), weights=model.plan.shares, curvature=1.0,
                step=step, local_steps=steps, start=truth,
            )  # fmt: skip
            last, averaged = [], []
            for seed in range(runs):
                res = model.fit(seed=seed, progress=False)
                last.append(np.sum((res.params_last.to_numpy() - truth) ** 2))
                averaged.append(np.sum((res.params.to_numpy() - truth) ** 2))
            for what, errors, mse in (
                ("last", last, said.table["mse"].iloc[-1]),
                ("averaged", averaged, said.averaged),
            ):
                mean, se = float(np.mean(errors)), float(np.std(errors, ddof=1) / math.sqrt(runs))
                rows.append({
                    "mechanism": name, "weights": "equal" if weights is None else "1 and 3", "model": what,
                    "runs": runs, "predicted": mse, "simulated": mean, "se": se, "z": (mean - mse) / se,
                })  # fmt: skip
    return pd.DataFrame(rows)


# --- command ---------------------------------------------------------------------------------------------

STUDIES = {
    "audit": lambda a: audits(a.quick),
    "geometry": lambda a: geometry(a.quick),
    "convergence": lambda a: convergence(a.quick),
    "case_study": lambda a: case_study(),
}


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.federated", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("studies", nargs="*", default=[], help="all by default")
    parser.add_argument("--only", nargs=2, metavar=("DATA", "MU"), help="one cell of accuracy; others stay as stored")
    parser.add_argument("--quick", action="store_true", help="a look: little is run, nothing stored")
    parser.add_argument("--again", action="store_true", help="run stored tables again and replace them")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where results are stored")
    args = parser.parse_args(arguments)
    command = " ".join(["python -m benchmarks.federated", *(sys.argv[1:] if arguments is None else arguments)])
    known = [*STUDIES, "accuracy"]
    for study in args.studies or known:
        if study not in known:
            parser.error(f"studies are {', '.join(known)}, got {study!r}")
        path = args.out / f"federated_{study}.csv"
        if study == "accuracy":
            _run_accuracy(args, path, command)
            continue
        if path.exists() and not (args.again or args.quick):
            print(f"{path.name} is stored; --again replaces it", file=sys.stderr)
            continue
        table = STUDIES[study](args)
        print(table.to_string(index=False))
        if not args.quick:
            save_table(table.round(1) if study == "case_study" else _rounded(table), path, command)


def _run_accuracy(args: argparse.Namespace, path: Path, command: str) -> None:
    """Cell by cell, each stored when it is done."""
    only = None if args.only is None else (args.only[0], float(args.only[1]))
    if path.exists() and only is None and not (args.again or args.quick):
        print(f"{path.name} is stored; --again replaces it", file=sys.stderr)
        return
    for table in accuracy(args.quick, only):
        print(table.to_string(index=False), flush=True)
        if args.quick:
            continue
        table = _rounded(table.assign(cell_mu=table["mu"].min()))
        if path.exists():
            stored = read_table(path)
            same = (stored["data"] == table["data"].iloc[0]) & (stored["cell_mu"] == table["cell_mu"].iloc[0])
            table = pd.concat([stored[~same], table]).sort_values(["data", "cell_mu"], kind="stable")
        save_table(table, path, command if only is None else "python -m benchmarks.federated accuracy --again")


def _rounded(table: pd.DataFrame) -> pd.DataFrame:
    return table.map(lambda v: float(f"{v:.4g}") if isinstance(v, float) else v)


if __name__ == "__main__":
    main()
