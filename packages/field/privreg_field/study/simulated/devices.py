"""Devices of a study, many at once: reports of made-up people, for trials of a collector."""

import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from numpy.typing import NDArray

from privreg.base.arrays import Ints
from privreg.base.optional import need
from privreg.collector.aggregate import report
from privreg.collector.aggregate.plan import State
from privreg.collector.aggregate.report import steps
from privreg.data.cells import as_series
from privreg.data.columns import column_of
from privreg.data.sources.open import open_table
from privreg.errors import OptionError
from privreg.fits.plan import order_of
from privreg.formula.spec import ModelSpec
from privreg.privacy.ledger import Charge
from privreg.protocol import lattice
from privreg.protocol.sums import LETTERS, SumAsk
from privreg.simulation.devices import Devices
from privreg.simulation.streaming.encoding import Encoder, joined, picked
from privreg_field import KIT
from privreg_field.collector.messages import state_of
from privreg_field.device.report import answer, design, sums
from privreg_field.study.reading import shared
from privreg_field.study.reading.collected import chain_of, fit_plan_of, table_of
from privreg_field.wire import messages, peers, wire
from privreg_field.wire.messages import FieldState, Report, Token
from privreg_field.wire.study import PublicPlan


def rounded_normals(rng: np.random.Generator, shape: tuple[int, ...], bits: int) -> Ints:
    """Round(2^bits Z), in double precision: enough for a trial, and no exact sampler as devices have."""
    return np.rint(2.0**bits * rng.standard_normal(shape)).astype(np.int64)


def _rows(batch: Any, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Rows as devices have them."""
    columns = [as_series(column_of(batch, name)).astype(object) for name in names]
    cells = [c.where(c.notna(), None).tolist() for c in columns]  # pandas' own missing values are none of devices'
    return list(zip(*cells, strict=True))


class Crowd:
    """People with rows, one each, or several with a diary, whose devices answer a study.
    Raises OptionError if an answer is given that is none of a column's levels, or no number.
    """

    def __init__(self, plan: PublicPlan, plan_hash: bytes, rows: Any) -> None:
        self.plan, self._hash = plan, plan_hash
        # whether a report is made row by row of a person, as in a device
        self._several = plan.diary is not None or bool(plan.sums and plan.sums.cuts)
        self._rng = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
        if plan.table:
            self._begin(None)
            self._take(rows)
            return
        spec = fit_plan_of(plan).spec
        order = self._begin(spec)
        if self._several:
            self._gather(rows, spec)
            return
        encoder = Encoder(spec, order, None, by_column=True)
        asked = "clamping" in plan.roles
        source = spec.open(rows)
        parts = []
        for batch in source.batches(0):
            self._check(batch)
            parts.append(encoder.encode(batch, clamped=asked))
        held = joined(parts)
        silent = np.isnan(held.y)[:, None]
        self._held = held._replace(
            x=np.where(silent, np.nan, held.x), clamped=None if held.clamped is None else held.clamped & ~silent
        )
        self._charge = Charge(source.identity, plan.mu.p / plan.mu.q, seeded=False)

    def _take(self, rows: Any) -> None:
        """Let devices have their answers to a table."""
        fit = table_of(self.plan)
        source = open_table(rows, fit.columns, fit.spec.schema)
        names, self._answers = fit.columns, list[dict[str, Any]]()
        for batch in source.batches(0):
            self._check(batch)
            self._answers += [dict(zip(names, row, strict=True)) for row in _rows(batch, names)]
        self._charge = Charge(source.identity, self.plan.mu.p / self.plan.mu.q, seeded=False)

    def _gather(self, rows: Any, spec: ModelSpec) -> None:
        """Let devices have diaries: rows of each person, whom the column of `id=` tells from others."""
        names = [column.name for column in self.plan.used]
        source = open_table(rows, tuple(dict.fromkeys((*names, *spec.people.columns))), spec.design.schema)
        held: dict[Any, list[dict[str, Any]]] = {}
        for batch in source.batches(0):
            self._check(batch)
            who = None if spec.people.id is None else _rows(batch, [spec.people.id])
            for k, row in enumerate(_rows(batch, names)):
                held.setdefault(len(held) if who is None else who[k], []).append(dict(zip(names, row, strict=True)))
        self._diaries = list(held.values())
        self._charge = Charge(source.identity, self.plan.mu.p / self.plan.mu.q, seeded=False)

    def _begin(self, spec: ModelSpec | None) -> NDArray[np.intp]:
        """Order of columns inside."""
        engine: Any = chain_of(self.plan).plan
        self.engine = engine
        if spec is None:
            return np.zeros(0, dtype=np.intp)
        return order_of(spec, factors=True)[0]

    def _check(self, batch: Any) -> None:
        """Refuse rows whose devices would ask their people again: what no device sends, a swarm doesn't either."""
        names = [column.name for column in self.plan.used]
        for answers in _rows(batch, names):
            if wrong := design.wrong(self.plan, dict(zip(names, answers, strict=True))):
                raise OptionError(f"devices would not send what the rows hold: {'; '.join(wrong)}; correct the rows.")

    def __len__(self) -> int:
        if self._several:
            return len(self._diaries)
        return len(self._answers if self.plan.table else self._held.y)

    def bare(self, state: FieldState, who: Sequence[int], tokens: Sequence[Token]) -> tuple[str, list[list[int]]]:
        """The role that is asked, and reports of rows `who` on the lattice before noise: by the devices' own clip."""
        (ask,) = state.asks
        if self.plan.table:
            return ask.role, [answer.whole(self.plan, self._answers[i]) for i in who]
        role = self.plan.role_of(ask)
        held = [answer.rows_of(self.plan, self._diaries[i]) for i in who] if self._several else []
        if isinstance(ask, SumAsk):
            return ask.role, [sums.whole(role, sums.of_person(self.plan, ask, rows)) for rows in held]
        inside, gauge = state_of(self.engine, ask)
        places = [messages.place_of(self._hash, token) for token in tokens]
        groups = np.array([messages.group_of(self.plan, ask.role, place) for place in places], dtype=np.int64)
        if self.plan.diary is not None:
            made = zip(groups.tolist(), held, strict=True)
            return ask.role, [answer.values(role, answer.of_person(self.plan, ask, g, rows)) for g, rows in made]
        u = self.plan.d + int(self.plan.constant) + int(self.plan.moment_response)  # numbers of a direction
        sent = np.zeros((len(who), u if role.form == lattice.MOMENTS else role.numbers))
        at = np.asarray(who, dtype=np.int64)
        for group in np.unique(groups).tolist():
            here = groups == group
            narrow = inside._replace(
                offsets=inside.offsets[group : group + 1], thresholds=inside.thresholds[group : group + 1]
            )
            block = picked(self._held, at[here])
            devices = Devices(self.engine, narrow, gauge)
            sent[here] = devices.directions(block) if role.form == lattice.MOMENTS else devices.before_noise(block)[0]
        return ask.role, [answer.values(role, row) for row in sent.tolist()]

    def bodies(self, state: FieldState, who: Sequence[int], tokens: Sequence[Token]) -> list[bytes]:
        """Bodies that these people's devices post, with their noise; the ledger has the rows before the first does.
        Raises BudgetError if it would exceed the limit of this process.
        """
        self._charge.enter()
        role, bare = self.bare(state, who, tokens)
        form = self.plan.roles[role]
        most = lattice.most(form.radius, self.plan.bits)
        noise = rounded_normals(self._rng, (len(bare), form.numbers), self.plan.bits)
        values = np.clip(np.array(bare, dtype=np.int64).reshape(len(bare), -1) + noise, -most, most)
        return [
            messages.report_body(Report(self._hash, state.number, role, token, tuple(row)))
            for token, row in zip(tokens, values.tolist(), strict=True)
        ]

    def posts(self, state: FieldState, who: Sequence[int], tokens: Sequence[Token]) -> list[tuple[bytes, ...]]:
        """Posts of each device, one body for every server; see `bodies`."""
        return [(body,) for body in self.bodies(state, who, tokens)]


class SharedCrowd(Crowd):
    """People with rows, whose devices share their reports out to two collectors; parameters are those of `Crowd`."""

    def _begin(self, spec: ModelSpec | None) -> NDArray[np.intp]:
        hpke = need("cryptography.hazmat.primitives.hpke", "serve", "a swarm for two collectors", KIT)
        self._suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
        self._sums: Any = shared.chain_of(self.plan).plan
        self._seals = [X25519PublicKey.from_public_bytes(one.seal) for one in self.plan.collectors]
        return np.zeros(0, dtype=np.intp) if spec is None else order_of(spec, factors=False)[0]

    def posts(self, state: FieldState, who: Sequence[int], tokens: Sequence[Token]) -> list[tuple[bytes, ...]]:
        """Posts of each device to either collector: its share, sealed. See `bodies`."""
        self._charge.enter()
        (ask,) = state.asks
        assert isinstance(ask, SumAsk)
        held = np.array(ask.rows), np.array(ask.theta), *ask[4:8]
        inside = State(state.number, ask.role, *held, longest=ask.reach, most=ask.most)
        at, named = np.asarray(who, dtype=np.int64), wire.hash_of(messages.state_payload(state))
        if self.plan.table or self._several:
            whole = np.array(self.bare(state, who, tokens)[1], dtype=np.int64).view(np.uint64)
        else:
            made = report.vectors(self._sums, inside, *picked(self._held, at).reported)
            whole = steps(self._sums, inside).whole(made).view(np.uint64)
        shares = np.frombuffer(secrets.token_bytes(whole.nbytes), dtype=np.uint64).reshape(whole.shape)
        parts = (whole - shares).astype("<u8"), shares.astype("<u8")

        def body(place: int, row: int, token: Token) -> bytes:
            info = peers.share_info(LETTERS[place], named, token)
            sealed = self._suite.encrypt(parts[place][row].tobytes(), self._seals[place], info)
            return peers.share_body(peers.Share(self._hash, state.number, ask.role, token, sealed))

        return [tuple(body(place, row, token) for place in (0, 1)) for row, token in enumerate(tokens)]
