"""The plan of a study in the field, from the public plan of a fit and what respondents are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from privreg.collector.field import check_field, family_of, roles_of
from privreg.errors import OptionError, SchemaError
from privreg.fits.fit_plan import FitPlan
from privreg.fits.plan import plan_of
from privreg.protocol import lattice, trees
from privreg.protocol.lattice import mu_of
from privreg.protocol.study import LIMIT, Cell, Held, PublicPlan, plan_payload, read_plan
from privreg.protocol.trees import Column
from privreg.protocol.wire import MessageError
from privreg.schema.declarations import Schema

DAY = 86_400


class DesignTrees(Protocol):
    """A design as expression trees, in the user's units: see `protocol.trees`."""

    @property
    def endog(self) -> Any:
        """The response, within its public range; of levels their number from 0."""

    @property
    def exog(self) -> Sequence[Any]:
        """Columns, in the design's order."""

    @property
    def offset(self) -> Any:
        """What is added to the linear predictor, or None."""


@dataclass(frozen=True)
class About:
    """What a study says of itself."""

    study: str  # Short name in addresses: a-z, 0-9, - and _
    # What respondents are told
    title: str
    purpose: str
    contact: str
    # Seconds since 1970 UTC
    opens: int
    closes: int
    grace: int = 2 * DAY  # Seconds after closing in which reports still count
    questions: Mapping[str, str] = field(default_factory=dict)  # Text of the question behind each column
    release_group: str = ""  # Studies of one group share a yearly budget on a device; the contact by default
    tokens: str = "issued"  # "issued", or "open" to anybody
    missing: str = "noise"  # "noise", or "refuse": whoever lacks an answer isn't asked, which shows
    after: int = 0  # Seconds after which a round is closed though reports are lacking; 0: never
    least: float = 0.5  # Share of a round's reports without which it isn't
    # Words of the survey's page, by name, in place of the English ones; ``language`` is their code, such as de
    texts: Mapping[str, str] = field(default_factory=dict)
    # Anything in strings and integers that the collector is to find in the plan
    model: Mapping[str, Any] = field(default_factory=dict)


def study_plan(fit: FitPlan, design: DesignTrees, about: About, keys: Sequence[bytes]) -> PublicPlan:
    """The plan that devices are told.

    Parameters
    ----------
    fit : FitPlan
        Made by ``model.plan()``.
    design : DesignTrees
        The model's formula, compiled.
    keys : sequence of bytes
        Public keys, one of which signs every state; several, so that the server's can be exchanged.

    Raises
    ------
    OptionError, SchemaError
        If devices can't play this fit, or a question is missing.
    """
    spec, settings = fit.spec, fit.settings
    if settings.efficient is None:
        raise OptionError("a study in the field goes by rounds; leave tuning='published' out.")
    if spec.people.mu is not None or spec.people.id is not None:
        raise OptionError("devices in the field know neither personal budgets nor several rows of a person.")
    engine, order = plan_of(spec, settings, None)
    check_field(engine)
    units, at = spec.units, order.tolist()
    cells = tuple(
        Cell(str(spec.design.names[j]), design.exog[j], float(units.centre[j]), float(units.scale[j])) for j in at
    )
    mix = None
    if units.mix is not None:
        mix = tuple(tuple(float(units.mix[j, k]) for k in at) for j in at)
    response = Cell(spec.design.endog_name, design.endog, units.y_centre, units.y_scale)
    offset = design.offset
    if offset is not None and units.y_scale != 1.0:
        offset = ["div", offset, ["const", float(units.y_scale).hex()]]
    shape, wide, gauge = engine.rules.shape, engine.wide, engine.gauge
    mu = mu_of(spec.budget.mu)
    roles = roles_of(engine, mu)
    made_of = _ordered(
        dict.fromkeys(n for t in (*(c.tree for c in cells), response.tree, offset) for n in trees.names(t)),
        about.questions,
    )
    plan = PublicPlan(
        study=about.study,
        title=about.title,
        purpose=about.purpose,
        contact=about.contact,
        opens=about.opens,
        closes=about.closes,
        grace=about.grace,
        keys=tuple(keys),
        columns=tuple(_column(name, spec.design.schema, about.questions) for name in made_of),
        response=response,
        offset=offset,
        design=cells,
        mix=mix,
        family=family_of(engine),
        a=shape.a,
        b=shape.b,
        blocks=engine.blocks,
        mu=mu,
        bits=lattice.BITS,
        roles=roles,
        missing=about.missing,
        rounds=tuple(
            Held(r.role, max(r.people, 0), about.after, int(about.least * max(r.people, 0)), r.optional)
            for r in engine.rounds
        ),
        tokens=about.tokens,
        limit=min(max(512 + 6 * max(role.numbers for role in roles.values()), 4096), LIMIT),
        release_group=about.release_group or about.contact,
        unscaled=engine.unscaled,
        constant=bool(engine.extra),
        moment_response=engine.layout.response,
        wide=() if wide is None else tuple(wide.columns.tolist()),
        edges=() if wide is None else tuple(wide.edges[wide.columns].tolist()),
        is_wide=wide is not None,
        y_max=0.0 if gauge is None else float(gauge.y_max),
        silent=gauge is not None and gauge.nonresponse,
        model=about.model,
        texts=tuple(about.texts.items()),
        clamping=tuple(c.name for c in engine.clamps) if "clamping" in roles else (),
    )
    try:
        return read_plan(plan_payload(plan))
    except MessageError as e:
        raise OptionError(f"devices would refuse this plan: {e}") from None


def _ordered(made_of: Iterable[str], questions: Mapping[str, str]) -> list[str]:
    """Columns of the formula in the order of their questions."""
    places = {name: k for k, name in enumerate(questions)}
    return sorted(made_of, key=lambda name: places.get(name, len(places)))


def _column(name: str, schema: Schema, questions: Mapping[str, str]) -> Column:
    """A column as devices are told: its question, and levels or bounds."""
    if not questions.get(name):
        raise SchemaError(
            f"column {name!r} has no question; write what respondents are asked, questions: {{{name}: ...}}."
        )
    if name in schema.dates:
        raise SchemaError(
            f"bounds[{name!r}] are dates, which devices don't read; ask for a number, such as days since the first "
            "date, and bound that."
        )
    low, high = schema.limits(name)
    levels = tuple(schema.levels.get(name, ()))
    if any(isinstance(v, float) for v in levels):
        raise SchemaError(f"levels of {name!r} in the field are strings, whole numbers, true or false; rename them.")
    return Column(name, levels, float(low), float(high), questions[name])
