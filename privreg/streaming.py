"""A private regression in progress: rows in, estimates out at any time."""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg import collector, storage
from privreg.accounting import Budget, Release, at_least
from privreg.columns import Encoded
from privreg.device import Device
from privreg.engine import Run, make_plan
from privreg.errors import InferenceError, PrivregError, PrivregWarning, SavedFileError, StreamError
from privreg.families import Family
from privreg.inference.plug_in import central_sandwich
from privreg.kernels import FULL, NONE, PEOPLE
from privreg.noise import NoiseStream, derived_key, fresh_key, seeded_key
from privreg.pipeline import Pipeline, Start
from privreg.privacy import PrivacyStatement
from privreg.reporting import Report, report_of_chain, report_of_pipeline
from privreg.results import Fit, PrivateResults
from privreg.tuning import Settings
from privreg.whitening import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.collector import Path as Chain
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
            elif name in schema.private:
                out.append((name, "nothing; location and scale learned from privatised reports"))
            elif name in schema.leaked_columns:
                out.append((name, "mean and sd TAKEN FROM THE DATA (see the notes)"))
            else:
                parts = []
                if name in schema.bounds and np.isfinite(schema.bounds[name][0]):
                    parts.append("bounds {:g} to {:g}".format(*schema.bounds[name]))
                if name in schema.moments:
                    parts.append("mean {:g}, sd {:g}".format(*schema.moments[name]))
                parts += [
                    f"correlation {rho:g} with {b if name == a else a}"
                    for (a, b), rho in schema.correlations.items()
                    if name in (a, b)
                ]
                if parts:
                    out.append((name, "; ".join(parts)))
        return tuple(out)


TOGETHER: Final = 2
"""Batches a thread that are taken together: enough that threads wait little for each other."""


def _joined(parts: list[Encoded]) -> Encoded:
    if len(parts) == 1:
        return parts[0]
    offset = None if parts[0].offset is None else np.concatenate([p.offset for p in parts if p.offset is not None])
    return Encoded(np.concatenate([p.endog for p in parts]), np.concatenate([p.exog for p in parts]), offset)


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
    start : ndarray, shape (p,), or None
        The user's public first guess, internal units.
    """

    def __init__(
        self, spec: Spec, settings: Settings, options: dict[str, Any], *, seed: int | None, start: Array | None
    ) -> None:
        self._spec, self._settings, self._options, self._seed = spec, settings, options, seed
        key = None
        if spec.budget.private:
            key = fresh_key() if seed is None else seeded_key(seed)
        self._central_key: bytes | None = None
        self._order: NDArray[np.intp] = np.arange(len(spec.design.names))
        self._run = self._chain(key, start) if settings.efficient is None else self._pipeline(key, start)
        self._lock = threading.Lock()
        self._broken = False

    def _chain(self, key: bytes | None, start: Array | None) -> Run:
        """Begin the single chain of the published algorithm."""
        s, to_user = self._settings, self._spec.units.matrix
        self._device = Device(s.score, s.weights, s.mechanism, s.weights.reach, s.curvature_bound)
        plan = make_plan(
            self._device,
            batch=s.batch,
            scaling_mode=FULL if any(m.name == "random_scaling" for m in s.methods) else NONE,
            outer=any(m.outer for m in s.methods),
            curvature_share=s.curvature_share,
            central=any(m.central for m in s.methods),
        )
        if plan.central and key is not None:
            self._central_key = derived_key(key, "central")
        theta = np.zeros(len(to_user)) if start is None else start
        return Run(plan, s.steps, collector.init(theta, plan, to_user[0]), to_user, key)

    def _pipeline(self, key: bytes | None, start: Array | None) -> Pipeline:
        """Begin the staged fit; the constant, if the design has one, goes first."""
        s, units = self._settings, self._spec.units
        assert s.efficient is not None
        constant = units.constant_column(self._spec.design.probe)
        if constant is not None:
            self._order = np.concatenate([[constant], np.delete(self._order, constant)])
        binary = self._spec.family.binary
        unscaled = np.flatnonzero(units.unscaled[self._order]).tolist()
        begin = Start(
            schedule=s.efficient.schedule,
            rules=s.efficient.rules,
            layout=Layout(constant is not None, not binary),
            mechanism=s.mechanism,
            reach=s.weights.reach,
            unscaled=(*unscaled, len(self._order)) if units.y_unscaled else tuple(unscaled),
            theta=None if start is None else start[self._order],
            c=s.efficient.corner,
            gaps=tuple(units.gaps(self._spec.design.probe)[self._order].tolist()),
            whitened=s.efficient.whitened,
            path=any(m.name == "random_scaling" for m in s.methods),
        )
        return Pipeline(begin, units.matrix[:, self._order], key)

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
        return self._run.people

    @property
    def lanes(self) -> int:
        """Parallel chains: the most threads that can be of use."""
        return 1 if self._settings.efficient is None else self._settings.efficient.schedule.lanes

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
            self._take(self._encode(batch))
        return self

    def _update_all(self, batches: Iterable[Any], threads: int) -> Iterator[int]:
        """Update by every batch, encoding and computing in `threads` threads; gives the people so far."""
        with self._alone(), ThreadPoolExecutor(threads) as pool:
            waiting = iter(batches)
            if isinstance(self._run, Pipeline) and threads > 1:
                self._run.pool, self._run.threads = pool, threads
            try:
                while some := list(itertools.islice(waiting, TOGETHER * threads if threads > 1 else 1)):
                    joined = None
                    with suppress(PrivregError):  # raised again below, after the batches before it were taken
                        joined = _joined(list(pool.map(self._encode, some)))
                    if joined is not None:
                        self._take(joined)
                    for batch in some if joined is None else []:
                        self._take(self._encode(batch))
                    yield self.nobs
            finally:
                if isinstance(self._run, Pipeline):
                    self._run.pool = None

    def _encode(self, batch: Any) -> Encoded:
        """Rows in internal units, in the engine's order of columns."""
        rows, units = self._spec.design.encode(batch), self._spec.units
        x = rows.exog
        units.rows_inside(x)
        if self._order[0] != 0:
            x = np.ascontiguousarray(x[:, self._order])
        with np.errstate(over="ignore"):  # a warning would tell of one value
            offset = None if rows.offset is None else rows.offset / units.y_scale
        return Encoded(units.response_inside(rows.endog), x, offset)

    def _take(self, rows: Encoded) -> None:
        self._broken = True  # an interrupt inside would leave noise used but not marked
        self._run.advance(rows.endog, rows.exog, rows.offset)
        self._broken = False

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
        spec, settings = self._spec, self._settings
        if isinstance(self._run, Run):
            report = report_of_chain(self._run, settings, spec.units, self._release_central)
        else:
            names = [*np.array(spec.design.names)[self._order].tolist(), spec.design.endog_name]
            report = report_of_pipeline(self._run, settings, spec.units, self._order, names)
        return PrivateResults(
            Fit(
                design=spec.design,
                family=spec.family,
                title=self._title(report),
                names=tuple(spec.design.names),
                params=report.params,
                last=report.last,
                estimates=report.estimates,
                nobs=self.nobs,
                senders=report.senders,
                updates=report.updates,
                trail_n=report.trail_n,
                trail_params=report.trail_params,
                trail_variances=report.trail_variances,
                statement=self._statement(report, release),
            )
        )

    def _release_central(self, chain: Chain) -> Any:
        """Randomise the raw sums of curvature and scores, once, as a trusted curator; then forget them."""
        run, n = self._run, chain.people
        assert isinstance(run, Run)
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

    def _title(self, report: Report) -> tuple[tuple[str, str], ...]:
        spec, s = self._spec, self._settings
        weights = s.weights.name
        if s.efficient is not None:
            weights = "unit, whitened" if s.efficient.whitened else "unit, scaled"
        out = [
            ("Dep. Variable", spec.design.endog_name),
            ("Family", report.family),
            ("Formula", spec.formula),
            ("No. Observations", f"{self.nobs:,}"),
            ("Score weights", weights),
            ("Tuning", report.tuning),
            ("Inference", ", ".join(m.title for m in s.methods) or "none (estimates only)"),
            ("Estimand", spec.family.estimand),
        ]
        return tuple(out)

    def _statement(self, report: Report, release: Release) -> PrivacyStatement:
        spec, s = self._spec, self._settings
        central = any(m.central for m in s.methods)
        spending = report.spending
        if central:
            spending = f"raw curvature and scores released once with noise by a curator: another {spec.budget}"
        return PrivacyStatement(
            budget=spec.budget,
            trust="central plug-in" if central else "simulated",
            mechanism="Gaussian",
            noise_sd=s.noise_sd,
            bound=s.bound,
            weights=report.bound,
            curvature=spending,
            release=release,
            declared=spec.declared(),
            notes=self._notes(report),
            seeded=self._seed is not None and spec.budget.private,
            leaked=spec.design.schema.leaked,
        )

    def _notes(self, report: Report) -> tuple[str, ...]:
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
        for e in report.estimates:
            out += e.notes
        return (*out, *report.notes)

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
        if any(m.central for m in self._settings.methods):
            raise InferenceError("a stream with plug_in_central holds raw sums and can't be saved; use plug_in.")
        arrays = self._run.to_arrays() | self._run.secrets()
        document = {
            "design": self._spec.design.to_json(),
            "family": [self._spec.family.name, self._spec.family.c, self._spec.family.scale],
            "budget": [self._spec.budget.form, list(self._spec.budget.asked)],
            "options": self._options,
            "seed": self._seed,
            "plan": self._plan(),
        }
        if self._spec.budget.private and self._seed is None:
            run.renew(fresh_key())  # before writing: were it cut off in between, noise is lost, never used twice
        storage.write_archive(path, "stream", document, arrays, secret=True)

    def _restore(self, path: Path, document: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Take over a saved state, and take the keys out of its file."""
        run = self._run
        if self._plan() != document["plan"]:
            raise SavedFileError(f"{path.name!r} was saved under rules this version doesn't follow; finish it there.")
        run.from_arrays(arrays)
        secrets = {k: v for k, v in arrays.items() if k.startswith("secret_")}
        if not self._spec.budget.private:
            return
        if not secrets:
            warnings.warn(
                f"the key in {path.name!r} was taken by an earlier load; this stream goes on with fresh noise.",
                PrivregWarning,
                stacklevel=4,
            )
            run.renew(fresh_key())  # of the stage the file was saved in
            return
        if self._seed is None:
            rest = {k: v for k, v in arrays.items() if k not in secrets}
            document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
            storage.write_archive(path, "stream", document, rest, secret=True)
        run.take_secrets(secrets)

    def _plan(self) -> list[Any]:
        """Public numbers by which a saved stream is known to be this one's."""
        run = self._run
        if isinstance(run, Run):
            return [list(run.plan), list(run.steps)]
        stages, *rest = run.start.schedule
        return [[list(s) for s in stages], rest, list(run.start.rules), list(run.start.unscaled)]

    def __reduce__(self) -> str:
        raise TypeError("a stream holds a secret key and can't be pickled; use save(path) and privreg.load(path)")

    def __repr__(self) -> str:
        return f"<privreg stream: {self._spec.formula!r}, {self.nobs:,} people so far, {self._spec.budget}>"
