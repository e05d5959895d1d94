"""The front door of federated fits: a frozen description of silos and model, and a fit that plays the silos here."""

import secrets
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Never

from privreg.data.participants import Participants
from privreg.data.sources.open import Source, open_table
from privreg.errors import DataError, OptionError, UnsupportedArgumentError, located
from privreg.families import resolve_family
from privreg.formula.describe import ModelOptions, callers_scopes, read_design
from privreg.formula.spec import Described, ModelSpec
from privreg.options.running import progress_bar
from privreg.options.table import check, documented
from privreg.options.unknown import refuse_unknown
from privreg.privacy.accounts import accounts_of
from privreg.privacy.ledger import LEDGER, UNSET, Budget
from privreg.privacy.noise import NoiseStream, fresh_key, seeded_key
from privreg.published.federated.client import Client, read_silo
from privreg.published.federated.plan import Plan, begin, make_plan, step
from privreg.published.federated.results import FederatedResults, make_results, make_statement


class FederatedRegression(Described):
    """Regression over silos that share nothing but randomised updates: federated averaging under local privacy.

    The unit of protection is **one silo's whole contribution** (client level), not one record. In each round every
    silo takes some gradient steps on its records from the public model, clips the difference to the model as a
    whole, randomises it and sends it; the server averages. A person whose records are all in one silo is protected at
    least as well as the silo; a person with records in k silos, √k times less well (k times under pure ε). Within a
    silo nobody is protected from the silo. Made by :meth:`from_formula`; `fit` leaves it unchanged, and pickling leaves
    its data out. Convex linear models only.

    See McMahan et al. (2017), Communication-efficient learning of deep networks from decentralized data. Duan (2025),
    PhD thesis, chapter 6, whose noise on the last of E clipped gradients is worth E·μ a round, not μ: here the whole
    update is clipped and randomised, and rounds are accounted for.
    """

    _plan: Plan
    _sources: tuple[Source, ...] | None
    _dataset: Any
    _results = FederatedResults

    def __init__(self, *_: Any, **__: Any) -> None:
        raise UnsupportedArgumentError(
            "silos are described by a formula: FederatedRegression.from_formula('y ~ x', [df_a, df_b]); make "
            "DataFrames of arrays."
        )

    @classmethod
    @documented("silos.formula")
    def from_formula(
        cls,
        formula: str,
        silos: Any,
        *,
        family: Any = "logistic",
        mu: Any = UNSET,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        bounds: Any = None,
        levels: Any = None,
        moments: Any = None,
        schema: Any = None,
        rounds: Any = 20,
        local_steps: Any = 5,
        step: Any = "auto",
        clip: Any = "auto",
        batch_size: Any = None,
        weights: Any = None,
        mechanism: Any = "auto",
        beta: Any = 1.0,
        magnitude_share: Any = 0.1,
        debias: Any = True,
        missing: str = "noise",
        dataset: Any = None,
        **unknown: Never,
    ) -> "FederatedRegression":
        """Describe a federated model by a formula.

        Parameters
        ----------
        formula : str
            From the same allow-list as :meth:`privreg.PrivateOnlineRegression.from_formula`.
        silos : sequence of DataFrame, mapping, path or table; or int
            One a silo. A number of silos describes a model without data, for Flower. Public declarations that frames
            or Parquet files carry in ``attrs["privreg"]`` must agree.
        **options : `options/parameters.toml`
        """
        refuse_unknown("silos.formula", unknown)
        budget, fam = Budget.declare(mu, epsilon, delta, rho), resolve_family(family)
        first = silos if isinstance(silos, list | tuple) else None  # all silos have the columns of the first
        declared = ModelOptions(bounds=bounds, levels=levels, moments=moments, schema=schema)
        design = read_design(formula, silos, callers_scopes(), fam, declared, table=first)
        self, opened, known = cls.__new__(cls), [], list[tuple[str, tuple[int, int], int]]()
        count = silos if isinstance(silos, int) and not isinstance(silos, bool) else None
        if count is None and (isinstance(silos, str) or not isinstance(silos, Sequence)):
            # the parts of an array are new objects every time, which no account of releases could know again
            raise OptionError(
                f"silos must be a list with one entry a silo, got {type(silos).__name__}; a single table has no silos, "
                "split it and keep the list, or use PrivateOnlineRegression, where every record reports by itself."
            )
        for i, data in enumerate(silos if count is None else (), 1):
            with located(f"silo {i}"):
                source = open_table(data, design.columns, design.schema)
                if not source.repeatable:
                    raise DataError(f"{source.kind} can be read once only; give a DataFrame, arrays or a file.")
            opened.append(source.of(dataset))
            known += [(repr(a.key), a.part, i) for a in accounts_of(source.identity).now() if a.dense]
        for (key, part, i), (other, after, k) in pairwise(sorted(known)):
            if key == other and i != k and after[0] < part[1]:
                raise DataError(f"silos {i} and {k} have rows in common; each row must come once.")
        # a silo sends no number of records, so that leaving one out is the same as letting it count for nothing
        people = Participants.declare(missing="noise" if missing == "drop" else missing)
        self._spec = ModelSpec.declare(design, fam, budget, None, "auto", "record", people)
        self._plan = make_plan(
            self._spec, len(opened) if count is None else count, rounds=rounds, local_steps=local_steps, step=step,
            clip=clip, batch_size=batch_size, weights=weights, mechanism=mechanism, beta=beta,
            magnitude_share=magnitude_share, debias=debias,
        )  # fmt: skip
        self._sources, self._dataset = tuple(opened) if count is None else None, dataset
        return self

    @property
    def plan(self) -> Plan:
        """Everything public about the fit to come: what a server and every silo must agree on."""
        return self._plan

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_sources": None}

    def __repr__(self) -> str:
        return repr(self._plan).replace("<federated plan", "<FederatedRegression")

    @documented("silos.fit")
    def fit(self, *, seed: Any = None, progress: bool | None = None, **unknown: Never) -> FederatedResults:
        """Fit here, in one process that plays all silos; warn if the model was still on its way at the end.

        Parameters
        ----------
        **options : `options/parameters.toml`

        Notes
        -----
        Raises BudgetError if a limit on spending would be exceeded for any silo, before anything is released; DataError
        or SchemaError, which name the silo and the column, if a silo's records can't be used.
        """
        refuse_unknown("silos.fit", unknown)
        check("silos.fit", "progress", progress)
        seed, plan = check("silos.fit", "seed", seed), self._plan
        if self._sources is None:
            raise DataError("this model has no silos' data (it was given a number of them, or unpickled); give silos=.")
        clients = [Client(plan, *read_silo(plan, s, i)) for i, s in enumerate(self._sources, 1)]
        for source in self._sources:  # none refuses before any is entered
            LEDGER.check(source.identity, plan.total_mu)
        seeded, fit = seed is not None, secrets.token_hex()  # silos of one fit are of different people
        entered = [LEDGER.spend(s.identity, plan.total_mu, seeded=seeded, stream=fit) for s in self._sources]
        release = max(entered, key=lambda r: (r.total_mu, r.number))  # of the silo that has spent most
        key = fresh_key() if seed is None else seeded_key(seed, "federated")
        stream, state = NoiseStream(key, plan.mechanism.width), begin(plan)
        with progress_bar(plan.rounds, progress) as bar:
            bar.unit = " rounds"
            for _ in range(plan.rounds):
                state = step(plan, state, [c.report(state.theta, stream.draw(1)[0]) for c in clients])
                bar.update()
        res = make_results(plan, state, make_statement(plan, release, "simulated", seeded=seeded))
        res._caution()
        return res
