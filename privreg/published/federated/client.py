"""Work of one silo, the only code here that sees raw records.

The order is always records → local steps from the public model → difference to it → clip → randomise. Only the last
leaves the silo, with the share of the records that can be used; their number, which may differ, too, is not sent.
"""

import threading
from collections.abc import Mapping

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.data.columns import column_of
from privreg.data.sources.open import Source
from privreg.errors import OptionError, StreamError, located
from privreg.families import scores
from privreg.families.logistic import class_shares
from privreg.privacy.noise import NoiseStream, fresh_key, seeded_key
from privreg.published.federated.plan import Plan


def read_silo(plan: Plan, source: Source, number: int) -> tuple[Array, Array]:
    """Encode the records of silo `number`, from 1, internal units: rows, shape (n, p), and responses, shape (n,).

    Responses are NaN of records that can't be used.
    Errors of the source, and of a column that is absent, have the silo's number; those of a record don't: that would
    say whose it was.
    """
    design, units, batches = plan.spec.design, plan.spec.units, source.batches(0)
    xs, ys = [np.empty((0, len(design.names)))], [np.empty(0)]
    while True:
        with located(f"silo {number}"):
            batch = next(batches, None)
            for name in design.columns if isinstance(batch, pd.DataFrame | Mapping) else ():
                column_of(batch, name)
        if batch is None:
            return np.concatenate(xs), np.concatenate(ys)
        encoded = design.encode(batch, plan.spec.people.missing)
        x = np.array(encoded.exog, dtype=np.float64, order="C")
        units.rows_inside(x)
        xs.append(x)
        ys.append(units.response_inside(encoded.endog))


def local_update(plan: Plan, theta: Array, x: Array, y: Array) -> Array:
    """Difference to the public model after the local steps, neither clipped nor randomised, shape (size,).

    No records, or records so large that they overflow, give no difference.
    """
    if not (n := len(y)):
        return np.zeros(plan.size)
    local, many, predictors = theta.copy(), min(plan.batch or n, n), plan.size // x.shape[1]
    with np.errstate(all="ignore"):  # a warning would tell of the records
        for step in range(plan.local_steps):
            rows = slice(None) if many == n else np.arange(step * many, (step + 1) * many) % n
            some, seen = x[rows], y[rows]
            if plan.spec.family.scoring.multiple:
                shares = class_shares(some @ local.reshape(predictors, -1).T)[:, 1:]
                shares -= seen[:, None] == np.arange(1.0, predictors + 1.0)
                gradient = (shares.T @ some).ravel() / len(seen)
            else:
                gradient = some.T @ scores.psi(plan.score, some @ local, seen) / len(seen)
            local -= plan.step * gradient
        update = local - theta
    return update if np.isfinite(update).all() else np.zeros(plan.size)


def clipped(update: Array, clip: float) -> Array:
    """Shorten an update to norm `clip`, the bound that the noise is calibrated to."""
    with np.errstate(over="ignore"):
        norm = float(np.linalg.norm(update))
    return update * (clip / norm) if norm > clip else update


class Client:
    """One silo that takes part in a fit: it holds records and gives reports, one a round and no more.

    x, shape (n, p), and y, shape (n,), are those of :func:`read_silo`. A `seed` is for simulation only: noise that
    anybody can draw again protects nobody; `label` distinguishes seeded silos.

    Privacy doesn't depend on the server: whatever model it sends, a report is clipped and randomised as the silo's
    plan says, and the silo counts the rounds itself.
    """

    def __init__(self, plan: Plan, x: Array, y: Array, seed: int | None = None, label: str = "") -> None:
        kept = ~np.isnan(y)
        self._usable = float(kept.mean()) if len(y) else 0.0
        self._plan, self._x, self._y = plan, x[kept], y[kept]
        self._seed, self._label, self._answered, self._lock = seed, label, 0, threading.Lock()

    def update(self, theta: Array) -> Array:
        """Clipped update, which must not leave the silo, shape (size,)."""
        return clipped(local_update(self._plan, theta, self._x, self._y), self._plan.clip)

    def report(self, theta: Array, normals: Array | None = None) -> Array:
        """Randomised update at the public model `theta`, and the share of usable records unless κ is 0: what is sent.

        `normals`, shape (width,), are for this report alone; they are drawn here, from a new key, if they aren't given.
        Raises StreamError if the silo has answered in all rounds of its plan; OptionError if the model is not one of
        this plan.
        """
        plan = self._plan
        if theta.shape != (plan.size,) or not np.isfinite(theta).all():
            raise OptionError(f"the model sent must be {plan.size} finite numbers.")
        with self._lock:
            if self._answered >= plan.rounds:
                raise StreamError(
                    f"this silo has sent its {plan.rounds} reports; another would cost more than {plan.budget}."
                )
            self._answered = number = self._answered + 1  # before anything is computed: a failure spends the round
        if normals is None:
            label, seed = f"federated {self._label} {number}", self._seed
            key = fresh_key() if seed is None else seeded_key(seed, label)
            normals = NoiseStream(key, plan.mechanism.width).peek()[0]
        share = [plan.kappa * (self._usable - 0.5)] if plan.kappa else []
        return plan.mechanism.randomise(np.append(self.update(theta), share), normals)

    def __reduce__(self) -> str:
        raise TypeError("a silo holds raw records and can't be pickled; make it where the records are")
