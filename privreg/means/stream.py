"""Estimates in progress: rows go in, devices are played, reports are collected."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from privreg.data.columns import complete_rows, prepare
from privreg.data.participants import Counter
from privreg.data.sources.open import CHUNK, Source, as_frame, chunk_of, pieces, rows_of
from privreg.errors import DataError, InferenceError
from privreg.means import collector, device
from privreg.means.plan import Sums
from privreg.means.results.fit import MeansFit
from privreg.means.results.results import MeansResults
from privreg.means.spec import Spec, silent, stated
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER, Charge, Release
from privreg.privacy.noise import NoiseStream, derived_key, fresh_key, seeded_key


def refuse_few(rows: int) -> None:
    """Refuse to release anything about fewer than two people."""
    if rows < 2:
        raise DataError(f"{rows} rows can't give a mean and its error; 2 or more records are needed.")


class MeansStream:
    """Estimates in progress. Made by :meth:`PrivateMeans.start`."""

    def __init__(self, spec: Spec, seed: int | None, dataset: Any = None) -> None:
        self._spec, self._dataset = spec, dataset
        key = fresh_key() if seed is None else seeded_key(seed, "means")
        self._noise = NoiseStream(key, max(1, *(p.width for p in spec.plans)))
        self._of_sums = NoiseStream(derived_key(key, "sums"), max(1, *(p.size for p in spec.plans)))
        self._key = derived_key(key, "noise of sums")  # of a curator or two collectors, who add it once
        # by subgroup, with a sum that is not noised yet, at -1, or those of late factors, from which others are drawn:
        # raw, handed out to nobody
        self._held: list[tuple[collector.State, dict[int, Any]]] = [(collector.init(p), {}) for p in spec.plans]
        self._counter: Counter | None = spec.people.counter()
        self._release = secrets.token_hex()  # by which the ledger knows batches of the same memory for one release
        self._seeded = seed is not None
        self._cautioned = False  # whether results have warned that they should not be relied on

    def update(self, batch: Any) -> None:
        """Let the next people send their reports.

        The batch is a DataFrame, mapping of str to array, or table of Arrow or polars. It is entered in the ledger by
        itself: a BudgetError under a limit (`privreg.limit_spending`) that it would exceed, or if nothing tells whose
        these rows are. If a row can't be used, it is a DataError or SchemaError, and nobody of the piece of rows that
        holds it has reported.
        """
        self._update(
            batch, Charge(named(batch, self._dataset), self._spec.total_mu, seeded=self._seeded, stream=self._release)
        )

    def of(self, source: Source, bar: Any) -> MeansResults:
        """Results of everybody of a source, entered in the ledger as one release; see :meth:`PrivateMeans.fit`."""
        LEDGER.check(source.identity, self._spec.total_mu)
        charge = Charge(source.identity, self._spec.total_mu, seeded=self._seeded)
        for batch in source.batches(0):
            self._update(batch, charge)
            bar.update(rows_of(batch))
        refuse_few(self.nobs)
        return self.released(charge.enter())

    def _update(self, batch: Any, charge: Charge) -> None:
        spec, people, widest = (
            self._spec,
            self._spec.people,
            max(p.width + 3 * len(p.columns) for p in self._spec.plans),
        )
        batch, gaps = as_frame(batch, (*spec.columns, *people.columns), spec.schema), people.missing != "raise"
        for piece in pieces([batch], min(chunk_of(widest), CHUNK - 1)):  # CHUNK itself would take a batch whole
            raw = prepare(piece, spec.columns, spec.schema, frozenset(spec.columns), gaps=gaps)
            if spec.by is not None and (raw[spec.by] < 0).any():
                raise DataError(
                    f"column {spec.by!r} has a value that is missing or not declared; a subgroup is public and known "
                    "for everybody."
                )
            silent = np.zeros(len(next(iter(raw.values()))), dtype=np.bool_)
            if self._counter is not None:
                silent = self._counter.excess(people.ids(piece), gaps=gaps)
            if people.missing == "drop" and (kept := complete_rows(raw.values())) is not None:
                raw, silent = {name: values[kept] for name, values in raw.items()}, silent[kept]
            charge.enter()
            normals, held = self._noise.draw(len(silent)), list(self._held)
            for g, plan in enumerate(spec.plans):
                here = slice(None) if spec.by is None else np.flatnonzero(raw[spec.by] == g)
                values = device.inside(spec.terms, {name: v[here] for name, v in raw.items()}, silent[here])
                state, waiting = held[g]
                if isinstance(plan, Sums):
                    some: dict[int, Any] = {-1: device.total(plan, values)}
                    state = state._replace(people=state.people + len(values[0]))
                else:
                    made = device.reports(plan, values, normals[here][:, : plan.width])
                    some = {j: device.waiting(plan, values, j, *collector.beside(plan, made, j)) for j in plan.late}
                    state = collector.update(plan, state, made)
                held[g] = state, {j: raw_sum + waiting.get(j, 0) for j, raw_sum in some.items()}
            self._held = held  # an interrupt leaves no subgroup counted, or all

    def _states(self) -> list[collector.State]:
        """Sums of all reports so far; what was not drawn yet is drawn now, for good."""
        held = list(self._held)
        for g, plan in enumerate(self._spec.plans):
            state, waiting = held[g]
            if isinstance(plan, Sums) and waiting:  # once: whoever comes later would be in another sum
                noised = plan.noised(waiting[-1], derived_key(self._key, f"subgroup {g}"))
                state, waiting = state._replace(sums=noised), {}
            for j, raw in waiting.items():
                if raw.any():
                    normals = self._of_sums.draw(len(raw) + 1)[:, : plan.items[j].size]
                    state = collector.add(plan, state, j, plan.items[j].mechanism.summed(raw, normals))
            held[g] = state, {}
        self._held = held
        return [state for state, _ in held]

    @property
    def nobs(self) -> int:
        """People who sent a report so far."""
        return sum(state.people for state, _ in self._held)

    def results(self) -> MeansResults:
        """Results so far; looking at them costs nothing.

        A ReliabilityWarning says, once for each stream, which rows should not be relied on, and why; too few people are
        an InferenceError.
        """
        res = self.released(Release(0, self._spec.total_mu))
        if not self._cautioned:
            self._cautioned = bool(res.privacy.doubts)
            res._caution()
        return res

    def released(self, release: Release) -> MeansResults:
        """Results, with the release as the ledger has it."""
        spec, states = self._spec, self._states()
        whole, groups = collector.estimates(spec.terms, spec.plans, states), list[collector.Estimates]()
        p, t = len(whole.params), len(spec.terms)
        for plan, state in zip(spec.plans, states, strict=True) if spec.by is not None else ():
            try:
                groups.append(collector.estimates(spec.terms, [plan], [state]))
            except InferenceError:
                groups.append(collector.Estimates(*(np.full(shape, np.nan) for shape in (p, (p, p), (t, 2)))))
        few = [collector.few(plan, state) for plan, state in zip(spec.plans, states, strict=True)]
        doubted = [terms | silent(alone.unusable) for terms, alone in zip(few, groups, strict=False)]
        rows = [collector.alike(*of, spec.people.max_per_id) for of in zip(spec.plans, states, strict=True)]
        header, statement = stated(
            spec, release, seeded=self._seeded, people=self.nobs, few=frozenset().union(*few),
            unusable=whole.unusable, alike=max(rows),
        )  # fmt: skip
        fit = MeansFit(
            terms=spec.terms,
            params=whole.params,
            cov=whole.cov,
            nobs=self.nobs,
            by=spec.by,
            groups=tuple(str(g) for g in spec.groups) if groups else (),
            group_people=tuple(s.people for s in states) if groups else (),
            group_params=np.array([a.params for a in groups]).reshape(-1, p),
            group_variances=np.array([np.diag(a.cov) for a in groups]).reshape(-1, p),
            group_reliable=~np.array([spec.concerned(terms) for terms in doubted], dtype=np.bool_).reshape(-1, p),
            group_tests=collector.alike_groups(spec.terms, groups),
            moments=collector.moments(spec.terms, spec.plans, states)[: 1 + len(groups)],
            missing=np.stack([one.missing for one in (whole, *groups)]),
            header=header,
            statement=statement,
        )
        return MeansResults(fit)

    def __reduce__(self) -> str:
        raise TypeError("estimates in progress hold a secret key and can't be pickled; take results() and save those")

    def __repr__(self) -> str:
        return f"<MeansStream: {self._spec.formula!r}, {self.nobs:,} records>"
