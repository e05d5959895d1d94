"""A private regression in progress: rows in, estimates out at any time."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg import collector, storage
from privreg.accounting import Budget, Release, at_least
from privreg.collector import Path as Chain
from privreg.device import Device
from privreg.engine import Run, make_plan, scaling_variances
from privreg.errors import InferenceError, PrivregWarning, SavedFileError, StreamError
from privreg.families import Family
from privreg.inference import Estimate, Normal, RandomScaling
from privreg.inference.plug_in import central_sandwich, local_sandwich
from privreg.kernels import FULL, IN_BATCH, NONE, PEOPLE, POSITION, State
from privreg.noise import NoiseStream, derived_key, fresh_key, seeded_key
from privreg.privacy import PrivacyStatement
from privreg.results import Fit, PrivateResults
from privreg.tuning import Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.scaling import Units

    Array = NDArray[np.float64]

__all__ = ["Spec", "Stream"]

ROUNDING_NOTE: Final = (
    "noise is drawn in double precision: the guarantee holds up to floating-point rounding; where a single report "
    "must withstand an attack on its last bits, the device needs an exact sampler"
)
SEED_NOTE: Final = "seed= was given: reproducible noise protects nobody; use it for simulations only"


@dataclass(frozen=True)
class Spec:
    """What is fixed before a fit is tuned: public.

    Parameters
    ----------
    design : Design or ArrayDesign
    units : Units
    family : Family
    budget : Budget
    """

    design: Any
    units: Units
    family: Family
    budget: Budget

    @property
    def formula(self) -> str:
        """Formula, or the names of an array model."""
        d = self.design
        return str(getattr(d, "formula", None) or f"{d.endog_name} ~ {' + '.join(d.names)}")

    def declared(self) -> tuple[tuple[str, str], ...]:
        """Public declarations by column, in words."""
        schema, out = self.design.schema, []
        for name in self.design.columns:
            if name in schema.levels:
                taken = " TAKEN FROM THE DATA (see the notes)" if name in schema.leaked_columns else ""
                out.append((name, "levels " + ", ".join(str(v) for v in schema.levels[name]) + taken))
            elif name in schema.leaked_columns:
                out.append((name, "mean and sd TAKEN FROM THE DATA (see the notes)"))
            else:
                parts = []
                if name in schema.bounds and np.isfinite(schema.bounds[name][0]):
                    parts.append("bounds {:g} to {:g}".format(*schema.bounds[name]))
                if name in schema.moments:
                    parts.append("mean {:g}, sd {:g}".format(*schema.moments[name]))
                if parts:
                    out.append((name, "; ".join(parts)))
        return tuple(out)


def _like(own: Any, saved: Any) -> Any:
    """Take over a saved array only with its place's shape and type: compiled loops don't check their indices."""
    if saved.shape != own.shape or saved.dtype != own.dtype or not np.isfinite(saved).all():
        raise ValueError("a saved array doesn't fit the plan")
    return np.ascontiguousarray(saved)


class Stream:
    """A fit in progress. Made by ``model.start()``; rows come in by :meth:`update`.

    Parameters
    ----------
    spec : Spec
    settings : Settings
    options : dict
        The user's options, by which a saved stream is rebuilt.
    seed : int or None
        For simulation only.
    start : ndarray, shape (p,)
        First iterate, internal units.
    """

    def __init__(
        self, spec: Spec, settings: Settings, options: dict[str, Any], *, seed: int | None, start: Array
    ) -> None:
        self._spec, self._settings, self._options, self._seed = spec, settings, options, seed
        methods = settings.methods
        self._device = Device(
            settings.score, settings.weights, settings.mechanism, settings.weights.reach, settings.curvature_bound
        )
        scaling = any(m.name == "random_scaling" for m in methods)
        plan = make_plan(
            self._device,
            batch=settings.batch,
            scaling_mode=FULL if scaling else NONE,
            outer=any(m.outer for m in methods),
            curvature_share=settings.curvature_share,
            central=any(m.central for m in methods),
        )
        key = None
        if spec.budget.private:
            key = fresh_key() if seed is None else seeded_key(seed)
        self._central_key = None if key is None or not plan.central else derived_key(key, "central")
        to_user = spec.units.matrix
        state = collector.init(start, plan, to_user[0])
        self._run = Run(plan, settings.steps, state, to_user, key)
        self._lock = threading.Lock()
        self._broken = False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out, and everybody once an update was cut off between a report and its bookkeeping."""
        if not self._lock.acquire(blocking=False):
            raise StreamError("another thread is using this stream; people report one after another: use one thread.")
        try:
            if self._broken:
                raise StreamError(
                    "an update of this stream was interrupted, so it can't tell which noise was used; go on from the "
                    "last saved state, or start again with other people."
                )
            yield
        finally:
            self._lock.release()

    @property
    def nobs(self) -> int:
        """People whose report has been taken so far."""
        return int(self._run.state.counts[POSITION])

    def update(self, batch: Any) -> Stream:
        """Play the devices of the people in `batch`, each once, in order.

        Parameters
        ----------
        batch : DataFrame, mapping of str to array, or (endog, exog[, offset]) for array models
            New people; nobody's rows may come twice.

        Returns
        -------
        Stream
            Itself.

        Raises
        ------
        DataError, SchemaError
            If the rows can't be encoded. Nobody of this batch has then sent a report.
        StreamError
            After an interrupted update, in a forked process, or while another thread is at it.
        """
        with self._alone():
            rows = self._spec.design.encode(batch)
            x, units = rows.exog, self._spec.units
            units.rows_inside(x)
            y = units.response_inside(rows.endog)
            offset = None
            if rows.offset is not None:
                offset = rows.offset / units.y_scale
            self._broken = True  # an interrupt inside would leave noise used but not marked
            self._run.advance(y, x, offset)
            self._broken = False
        return self

    # --- results ---------------------------------------------------------------------------------------

    def results(self) -> PrivateResults:
        """Results so far; the stream may go on afterwards.

        Raises
        ------
        InferenceError
            If fewer people than coefficients have reported.
        """
        with self._alone():
            return self._results(Release(0, self._spec.budget.mu))

    def _results(self, release: Release) -> PrivateResults:
        spec, settings, units = self._spec, self._settings, self._spec.units
        chain = collector.final(self._run.state, self._run.plan)
        names = tuple(spec.design.names)
        if not (np.isfinite(chain.mean).all() and np.isfinite(chain.last).all()):
            raise InferenceError(
                "the estimates overflowed: the steps are too large; leave step= out or make it smaller."
            )
        if chain.updates <= len(names):
            raise InferenceError(
                f"{chain.people} people in {chain.updates} updates can't determine {len(names)} coefficients; "
                f"more than {len(names)} updates are needed."
            )
        estimates = tuple(self._estimate(m.name, chain) for m in settings.methods)
        trail = self._run.trail
        at_end = not trail.updates or trail.updates[-1] < chain.updates
        means = [*trail.means, chain.mean] if at_end else trail.means
        variances = list(trail.variances)
        if at_end:
            variances.append(scaling_variances(chain.scaling, units.matrix))
        counts = np.array([*trail.updates, chain.updates] if at_end else trail.updates, dtype=np.int64)
        people = np.array([*trail.people, chain.people] if at_end else trail.people, dtype=np.int64)
        return PrivateResults(
            Fit(
                design=spec.design,
                family=spec.family,
                title=self._title(chain),
                names=names,
                params=units.params_outside(chain.mean),
                last=units.params_outside(chain.last),
                estimates=estimates,
                nobs=self.nobs,
                senders=chain.people,
                updates=chain.updates,
                trail_n=people,
                trail_params=np.array([units.params_outside(m) for m in means]),
                trail_variances=6.0 * np.array(variances) / counts[:, None],
                statement=self._statement(chain, estimates, release),
            )
        )

    def _estimate(self, method: str, chain: Chain) -> Estimate:
        units, settings = self._spec.units, self._settings
        if method == "random_scaling":
            return Estimate(method, units.cov_outside(6.0 * chain.scaling / chain.updates), RandomScaling(chain.lanes))
        if method == "plug_in":
            if not chain.curvature_people:
                raise InferenceError("nobody has sent a curvature report yet; plug_in needs more people.")
            plan = self._run.plan
            sandwich = local_sandwich(chain, plan.noise_sd, plan.curvature_sd, settings.batch)
        else:
            sandwich = self._release_central(chain)
        return Estimate(method, units.cov_outside(sandwich.cov), Normal(), sandwich.notes)

    def _release_central(self, chain: Chain) -> Any:
        """Randomise the raw sums of curvature and scores, once, as a trusted curator; then forget them."""
        run, n = self._run, chain.people
        summed = int(run.state.counts[PEOPLE])  # those of an unfinished batch are in the sums too
        p = chain.mean.shape[0]
        size = p * (p + 1) // 2
        rows, cols = np.triu_indices(p)
        noise = np.zeros((2, size))
        if self._central_key is not None:
            noise = NoiseStream(self._central_key, size).peek()[:2].copy()
        elif self._spec.budget.private:
            raise InferenceError("the central plug-in was already released once; fit again for another release.")
        self._central_key = None
        bounds = (self._device.curvature_bound, self._device.bound**2)
        sds = [self._settings.mechanism.central_sd(b) for b in bounds]
        out = []
        for raw, sd, z in zip((run.raw_curvature, run.raw_outer), sds, noise, strict=True):
            matrix = np.zeros((p, p))
            matrix[rows, cols] = (raw[rows, cols] + sd * z) / summed
            out.append(matrix + np.triu(matrix, 1).T)
            raw[:] = 0.0
        return central_sandwich(out[0], out[1], n, run.plan.noise_sd)

    def _title(self, chain: Chain) -> tuple[tuple[str, str], ...]:
        spec, s = self._spec, self._settings
        methods = ", ".join(m.title for m in s.methods) or "none (estimates only)"
        steps = f"{s.steps.gamma:.4g} (k{f' + {s.steps.delay:g}' if s.steps.delay else ''})^-{s.steps.alpha:g}"
        out = [
            ("Dep. Variable", spec.design.endog_name),
            ("Family", s.score_words),
            ("Formula", spec.formula),
            ("No. Observations", f"{self.nobs:,}"),
            ("Score weights", s.weights.name),
            ("Tuning", f"{s.tuning}: step {steps}, {s.batch} a batch, averaged"),
            ("Inference", methods),
        ]
        if chain.curvature_people:
            out.append(("Curvature senders", f"{chain.curvature_people:,}"))
        return tuple(out)

    def _statement(self, chain: Chain, estimates: tuple[Estimate, ...], release: Release) -> PrivacyStatement:
        spec, s = self._spec, self._settings
        central = any(m.central for m in s.methods)
        curvature = "no pilot; no curvature spending"
        if chain.curvature_people:
            curvature = f"{s.curvature_share:.0%} of the people sent curvature instead of a score; no extra budget"
        if central:
            curvature = f"raw curvature and scores released once with noise by a curator: another {spec.budget}"
        return PrivacyStatement(
            budget=spec.budget,
            trust="central plug-in" if central else "simulated",
            mechanism="Gaussian",
            noise_sd=s.noise_sd,
            bound=s.bound,
            weights=s.weights.formula,
            curvature=curvature,
            release=release,
            declared=spec.declared(),
            notes=self._notes(chain, estimates),
            seeded=self._seed is not None and spec.budget.private,
            leaked=spec.design.schema.leaked,
        )

    def _notes(self, chain: Chain, estimates: tuple[Estimate, ...]) -> tuple[str, ...]:
        spec, s = self._spec, self._settings
        out = []
        if not spec.budget.private:
            out.append("mu=None: NOT private; the reports carry no noise")
        elif self._seed is not None:
            out.append(SEED_NOTE)
        leaked = spec.design.schema.leaked
        if "scale" in leaked:
            out.append(
                "allow_leak: location and scale of columns were computed from the raw data, which is not private"
            )
        if "levels" in leaked:
            out.append("allow_leak: factor levels were collected from the raw data, which is not private")
        if any(m.central for m in s.methods):
            total = at_least(2**0.5 * spec.budget.mu, 4)
            out.append(
                f"plug_in_central is a one-time release by a trusted curator, not local privacy: {total}-GDP in all"
            )
        if spec.budget.private:
            out.append(ROUNDING_NOTE)
        for e in estimates:
            out += e.notes
        mixing = s.mixing_note(chain.updates)
        if mixing:
            out.append(mixing)
        return tuple(out)

    # --- storage ---------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Save the stream so that `privreg.load` goes on exactly, to the same bits.

        The file takes over the devices' noise: the current key (never a past one) and what is left of the current
        block. So it is readable by its owner only; this stream goes on with a fresh key; and loading takes the key out
        of the file, so that a second load draws a fresh one too. Don't copy the file: whoever loads a copy would noise
        other people with the same numbers. A seeded stream, which protects nobody anyway, keeps its noise.

        Raises
        ------
        InferenceError
            With the central plug-in, whose raw sums must not be stored.
        SavedFileError
            If the folder is missing or not writable.
        """
        with self._alone():
            self._save(path)

    def _save(self, path: str | Path) -> None:
        run = self._run
        if run.plan.central:
            raise InferenceError("a stream with plug_in_central holds raw sums and can't be saved; use plug_in.")
        arrays: dict[str, Any] = {f"state_{k}": v for k, v in run.state._asdict().items()}
        p = run.state.theta.shape[0]
        arrays["trail_counts"] = np.array([run.trail.updates, run.trail.people], dtype=np.int64)
        arrays["trail_means"] = np.array(run.trail.means).reshape(-1, p)
        arrays["trail_variances"] = np.array(run.trail.variances).reshape(-1, p)
        for name, noise in (("score", run.noise), ("curvature", run.curvature_noise)):
            if noise is not None:
                secret = noise.secret_state()
                arrays |= {f"secret_{name}_key": secret["key"], f"secret_{name}_rest": secret["rest"]}
        document = {
            "design": self._spec.design.to_json(),
            "family": [self._spec.family.name, self._spec.family.c, self._spec.family.scale],
            "budget": [self._spec.budget.form, list(self._spec.budget.asked)],
            "options": self._options,
            "seed": self._seed,
            "plan": list(run.plan),
            "steps": list(run.steps),
        }
        if self._spec.budget.private and self._seed is None:
            run.renew(fresh_key())  # before writing: were it cut off in between, noise is lost, never used twice
        storage.write_archive(path, "stream", document, arrays, secret=True)

    def _restore(self, path: Path, document: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Take over a saved state, and take the keys out of its file."""
        run = self._run
        if list(run.plan) != document["plan"] or list(run.steps) != document["steps"]:
            raise SavedFileError(f"{path.name!r} was saved under rules this version doesn't follow; finish it there.")
        run.state = State(*(_like(getattr(run.state, name), arrays[f"state_{name}"]) for name in State._fields))
        if run.state.counts.min() < 0 or run.state.counts[IN_BATCH] >= run.plan.batch:
            raise ValueError("counts out of range")
        counts = arrays["trail_counts"]
        if {len(counts[0]), len(counts[1])} != {len(arrays["trail_means"]), len(arrays["trail_variances"])}:
            raise ValueError("trail of unequal lengths")
        if any(arrays[f"trail_{name}"].dtype.kind not in "fi" for name in ("counts", "means", "variances")):
            raise ValueError("trail that isn't numbers")
        run.trail.updates, run.trail.people = counts[0].tolist(), counts[1].tolist()
        run.trail.means, run.trail.variances = list(arrays["trail_means"]), list(arrays["trail_variances"])
        secrets = {k: v for k, v in arrays.items() if k.startswith("secret_")}
        if not self._spec.budget.private:
            return
        if not secrets:
            warnings.warn(
                f"the key in {path.name!r} was taken by an earlier load; this stream goes on with fresh noise.",
                PrivregWarning,
                stacklevel=4,
            )
            return
        if self._seed is None:
            rest = {k: v for k, v in arrays.items() if k not in secrets}
            document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
            storage.write_archive(path, "stream", document, rest, secret=True)
        for name in ("score", "curvature"):
            if f"secret_{name}_key" in secrets:
                old = run.noise if name == "score" else run.curvature_noise
                assert old is not None
                stream = NoiseStream.from_secret_state(
                    old.width, secrets[f"secret_{name}_key"].tobytes(), secrets[f"secret_{name}_rest"]
                )
                if name == "score":
                    run.noise = stream
                else:
                    run.curvature_noise = stream

    def __reduce__(self) -> str:
        raise TypeError("a stream holds a secret key and can't be pickled; use save(path) and privreg.load(path)")

    def __repr__(self) -> str:
        return f"<privreg stream: {self._spec.formula!r}, {self.nobs:,} people so far, {self._spec.budget}>"
