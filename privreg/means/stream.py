"""Estimates in progress: rows go in, devices are played, reports are collected, and what is said of the release."""

import secrets
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from privreg.collector.levels import SURE
from privreg.data.columns import complete_rows, prepare
from privreg.data.participants import Counter
from privreg.data.sources.open import CHUNK, Source, as_frame, chunk_of, pieces, rows_of
from privreg.errors import DataError, InferenceError
from privreg.formula.spec import CLAMPING, UNUSABLE
from privreg.means import collector, device, verification
from privreg.means.plan import UNIT, Spec, Sums
from privreg.means.results.fit import MeansFit
from privreg.means.results.results import MeansResults
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER, Charge, Release
from privreg.privacy.noise import NoiseStream, derived_key, fresh_key, seeded_key
from privreg.results import statement
from privreg.schema.declarations import EPOCH_TEXT
from privreg.tables.diagnostics import note


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
        self._lock = threading.RLock()  # noise is drawn, and sums are added to, by one thread at a time
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
        whose, mu = named(batch, self._dataset), self._spec.total_mu
        with self._lock:
            self._update(batch, Charge(whose, mu, seeded=self._seeded, stream=self._release))

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
        spec, people, gaps = self._spec, self._spec.people, self._spec.people.missing != "raise"
        widest = max(p.width + 3 * len(p.columns) for p in spec.plans)
        batch = as_frame(batch, (*spec.columns, *people.columns), spec.schema)
        for piece in pieces([batch], min(chunk_of(widest), CHUNK - 1)):  # CHUNK itself would take a batch whole
            raw = prepare(piece, spec.columns, spec.schema, (), gaps=gaps)
            if spec.by is not None and (raw[spec.by] < 0).any():
                why = "a subgroup is public and known for everybody"
                raise DataError(f"column {spec.by!r} has a value that is missing or not declared; {why}.")
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
                    some = {j: device.waiting(plan, values, j, made) for j in plan.late}
                    state = collector.update(plan, state, made)
                held[g] = state, {j: raw_sum + waiting.get(j, 0) for j, raw_sum in some.items()}
            self._held = held  # an interrupt leaves no subgroup counted, or all

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
        """Results, with the release as the ledger has it; sums that were not drawn yet are drawn now, for good."""
        spec, states = self._spec, list[collector.State]()
        with self._lock:
            for g, (plan, (state, waiting)) in enumerate(zip(spec.plans, self._held, strict=True)):
                for j, raw in waiting.items():
                    if isinstance(plan, Sums):  # once: whoever comes later would be in another sum
                        state = state._replace(sums=plan.noised(raw, derived_key(self._key, f"subgroup {g}")))
                    elif raw.any():
                        normals = self._of_sums.draw(len(raw) + 1)[:, : plan.items[j].size]
                        state = collector.add(plan, state, j, plan.items[j].mechanism.summed(raw, normals))
                states.append(state)
            self._held = [(state, {}) for state in states]
        whole, groups = collector.estimates(spec.terms, spec.plans, states), list[collector.Estimates]()
        p, t = len(whole.params), len(spec.terms)
        for plan, state in zip(spec.plans, states, strict=True) if spec.by is not None else ():
            try:
                groups.append(collector.estimates(spec.terms, [plan], [state]))
            except InferenceError:
                groups.append(collector.Estimates(*(np.full(shape, np.nan) for shape in (p, (p, p), (t, 2)))))
        few = [collector.few(plan, state) for plan, state in zip(spec.plans, states, strict=True)]
        doubted = [terms | _silent(alone.unusable) for terms, alone in zip(few, groups, strict=False)]
        rows = [collector.alike(*of, spec.people.max_per_id) for of in zip(spec.plans, states, strict=True)]
        header, stated = self._stated(release, frozenset().union(*few), whole.unusable, max(rows))
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
            statement=stated,
        )
        return MeansResults(fit)

    def _stated(
        self, release: Release, few: frozenset[int], unusable: Sequence[statement.Unusable], alike: float
    ) -> tuple[tuple[tuple[str, str], ...], statement.PrivacyStatement]:
        """Entries of the summary's header, in order, and the privacy statement of a release.

        `few` are the terms of which too few people gave some answer, `unusable` the shares of values of no use, by
        term; `alike` is what people's rows may do to errors.
        """
        spec, budget, local = self._spec, self._spec.spent, self._spec.trust == "local"
        each = [[item.mechanism for item in p.items] if p.vector is None else [p.vector] for p in spec.plans if local]
        titles = "; ".join(dict.fromkeys(how.title for some in each for how in some)) or "Gaussian, on sums"
        lost = "; ".join(f"{one} of {t.column}" for t, one in zip(spec.terms, unusable, strict=False) if one.sure)
        d, least, most = len(spec.plans[0].items), *(pick(p.asked for p in spec.plans) for pick in (min, max))
        asked = f"everybody, {least if least == most else f'{least} to {most}'} of {d} items, drawn at random"
        if least == d:
            asked = f"everybody, all {d} items" if d > 1 else "everybody, the one item"
        header = [("Formula", spec.formula), ("No. Observations", f"{self.nobs:,}"), ("Mechanism", titles)]
        header += [("Trust", spec.trust.replace("_", " "))] * (not local) + [("Unusable", lost)] * bool(lost)
        header += [("Subgroups", f"{spec.by}, {len(spec.groups)} (by_group())")] * (spec.by is not None)
        carries = "the reports carry no noise" if local else "the sums carry no noise"
        notes = statement.opening_notes(budget, seeded=self._seeded, missing=spec.people.missing, carries=carries)
        if few:
            notes.append(note("answers.cells", np.flatnonzero(spec.concerned(few))))
        if gone := _silent(unusable):
            columns = ", ".join(spec.terms[k].column for k in sorted(gone))
            of = np.flatnonzero(spec.concerned(gone))
            notes.append(note("nonresponse.columns", of, columns=columns, match=statement.MATCH))
        else:
            text = f"by the reports no use could be made of {lost}; estimates are of the other records"
            notes += max((one for one in unusable if one.sure), default=statement.Unusable(0.0, 0.0)).noted(text)
        if any(plan.biased.any() for plan in spec.plans):
            notes.append(note("biased.means"))
        notes += statement.repeated_notes(spec.people.max_per_id, alike)
        notes += statement.closing_notes(spec.budget, budget, whole=not local)
        names = ["" if spec.by is None else f"{spec.by}={g}" for g in spec.groups]
        within = "one person's whole record, used once, but for the subgroup, whose members are public; neighbours "
        within += "replace one record"
        return (*header, ("Asked", asked)), statement.PrivacyStatement(
            setting={"local": "means", "central": "curator's means"}.get(spec.trust, "collectors' means"),
            budget=budget,
            release=release,
            trust="curator" if spec.trust == "central" else "simulated",
            protects=statement.whole_records(spec.people.max_per_id) if spec.by is None else within,
            noise_sd=0.0,
            bound=1.0,
            curvature="",
            neighbours=verification.trials,
            mechanism=titles,
            noise=_words(spec),
            weights=asked,
            declared=_public(spec),
            notes=tuple(notes),
            seeded=self._seeded and budget.private,
            mu_max=len({p.budget.mu for p in spec.plans}) > 1,
            per_id=spec.people.max_per_id,
            people=self.nobs,
            mechanics=tuple(map(verification.described, names, spec.plans)) if budget.private else (),
        )

    def __reduce__(self) -> str:
        raise TypeError("estimates in progress hold a secret key and can't be pickled; take results() and save those")

    def __repr__(self) -> str:
        return f"<MeansStream: {self._spec.formula!r}, {self.nobs:,} records>"


def _silent(unusable: Sequence[statement.Unusable]) -> frozenset[int]:
    """Terms of which hardly any record has a usable value, or too few for ratios to their share."""
    return frozenset(k for k, one in enumerate(unusable) if one.gone or 1.0 - one.share < SURE * one.error)


def _words(spec: Spec) -> str:
    said = []
    for plan in spec.plans:
        if isinstance(plan, Sums):
            by = "the sum" if plan.collectors == 1 else "each collector's sum of shares"
            distance = f"two reports are at most at distance 1; rounded to {1 / UNIT:.2g}"
            said.append(f"noise sd 1 / mu on {by}, where {distance}")
        elif plan.vector is not None:
            said.append(plan.vector.words(plan.radius, plan.size))
        else:
            said += [f"{item.mechanism.title}: {item.mechanism.words()}" for item in plan.items]
    said = list(dict.fromkeys(said))
    more = f"; and {len(said) - 6} more" if len(said) > 6 else ""
    return "numbers on [-1, 1]. " + "; ".join(said[:6]) + more


def _public(spec: Spec) -> tuple[tuple[str, str], ...]:
    out = []
    for t in dict.fromkeys(leaf for term in spec.terms for leaf in term.leaves):
        bounds = "bounds {} to {}".format(*spec.schema.bounds_text(t.column)) if not t.levels else ""
        dated = f"; read as days since {EPOCH_TEXT}" * (t.column in spec.schema.dates)
        out.append((t.column, (bounds or "levels " + ", ".join(map(str, t.levels))) + dated))
    if spec.by is not None:
        out.append((spec.by, "who belongs to which: " + ", ".join(map(str, spec.groups))))
    out += spec.schema.source_words(spec.columns)
    if any(not t.levels for t in spec.terms):
        out.append(CLAMPING)
    if (who := spec.people.id) is not None:
        rows = "one row" if spec.people.max_per_id == 1 else f"{spec.people.max_per_id:,} rows"
        out.append((who, f"identifies people; {rows} of each count, further ones send noise only"))
    said = UNUSABLE | {"noise": "whether a value can be used is randomised too; means of those who have one"}
    return (*out, ("unusable", said[spec.people.missing]))
