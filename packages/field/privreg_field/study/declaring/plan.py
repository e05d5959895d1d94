"""The plan of a study in the field, from the public plan of a fit and what respondents read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Never, Protocol

import numpy as np
from numpy.typing import NDArray

from privreg.data.followed import Followed
from privreg.errors import OptionError, SchemaError, meant, shown
from privreg.families.hazards import ENDED, INTERVAL
from privreg.fits import aggregate
from privreg.fits.fit_plan import FitPlan
from privreg.fits.plan import plan_of
from privreg.formula.spec import ModelSpec
from privreg.protocol import lattice
from privreg.protocol.sums import FAMILIES as SUMMED
from privreg.protocol.sums import LETTERS
from privreg.schema.declarations import Schema
from privreg_field.collector import batches
from privreg_field.collector.messages import check_field, family_of, roles_of
from privreg_field.study.tabled import TableFit, blocks_of
from privreg_field.wire import trees
from privreg_field.wire.analyses import Part, mu_of
from privreg_field.wire.collectors import Collector
from privreg_field.wire.roles import TABLE, Diary, Held
from privreg_field.wire.study import FAMILIES, LIMIT, NO_MODEL, PublicPlan, plan_payload, read_plans
from privreg_field.wire.trees import Cell, Column, label_text
from privreg_field.wire.wire import MessageError

DAY = 86_400
LEAST = 200
"""Reports of a batch without which two collectors publish nothing; or half of what is planned, if that is less."""


class DesignTrees(Protocol):
    """A design as expression trees, in the user's units: see `wire.trees`."""

    @property
    def endog(self) -> Any:
        """The response, within its public range; of levels their number from 0."""

    @property
    def exog(self) -> Sequence[Any]:
        """Columns, in the design's order."""

    @property
    def offset(self) -> Any:
        """Offset of the linear predictor, or None."""


@dataclass(frozen=True)
class About:
    """Texts, times and rules of a study."""

    study: str  # Short name in addresses: a-z, 0-9, - and _
    # Texts for respondents
    title: str
    purpose: str
    contact: str
    # Seconds since 1970 UTC
    opens: int
    closes: int
    grace: int = 2 * DAY  # Seconds after closing in which reports still count
    diary: int = 0  # Seconds after opening in which people add rows, before anybody reports
    questions: Mapping[str, str] = field(default_factory=dict)  # Text of the question behind each column
    # Labels of levels, by column and the level's code as text; a column left out shows its codes
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    release_group: str = ""  # Studies of one group share a yearly budget on a device; the contact by default
    tokens: str = "issued"  # "issued", or "open" to anybody
    missing: str = "noise"  # "noise", or "refuse": whoever lacks an answer isn't asked, which shows
    after: int = 0  # Seconds after which a round is closed though reports are lacking; 0: never
    least: float = 0.5  # Share of a round's reports without which it isn't
    sd: Mapping[str, float] = field(default_factory=dict)  # Expected sds, of responses those of residuals; not signed
    # Words of the survey's page, by name, in place of the English ones; ``language`` is their code, such as de
    texts: Mapping[str, str] = field(default_factory=dict)
    # Further languages of the page, by code: texts (as above), title, purpose, questions, choices
    languages: Mapping[str, Any] = field(default_factory=dict)
    # Anything in strings and integers that the collector is to find in the plan
    model: Mapping[str, Any] = field(default_factory=dict)
    collectors: tuple[Collector, ...] = ()  # The two who add up shares, in studies with trust="two_collectors"


def study_plan(fit: FitPlan, design: DesignTrees, about: About, keys: Sequence[bytes]) -> PublicPlan:
    """The plan that devices get of a study with one model, whose formula is compiled as `design`; see `study_plans`."""
    return study_plans([(about, fit, Part())], keys, design)[0]


def study_plans(
    analyses: Sequence[tuple[About, FitPlan | TableFit, Part]], keys: Sequence[bytes], design: DesignTrees | None = None
) -> tuple[PublicPlan, ...]:
    """The plans that devices get, one for each analysis: what the study says, what is asked, which of several it is.

    One of the public `keys` signs every state; several, so that the server's can be exchanged. With two collectors they
    are theirs, both of which sign. `design` is the formula of one model, if it was compiled.
    Raises OptionError, SchemaError if devices can't play a fit, or a question is missing.
    """
    made = [
        _of_table(fit, about, keys, part) if isinstance(fit, TableFit)
        else _of_fit(fit, design or fit.spec.design.trees(), about, keys, part)
        for about, fit, part in analyses
    ]  # fmt: skip
    columns = {c.name: c for plan in made for c in plan.columns}
    order = _ordered(columns, analyses[0][0].questions)
    limit = max(plan.limit for plan in made)
    plans = [plan._replace(columns=tuple(columns[name] for name in order), limit=limit) for plan in made]
    try:
        return read_plans(plan_payload(*plans))
    except MessageError as e:
        raise OptionError(f"devices would refuse this plan: {e}") from None


def _common(about: About, keys: Sequence[bytes], part: Part) -> dict[str, Any]:
    """Members that the plans of all analyses have in common."""
    names = ("study", "title", "purpose", "contact", "opens", "closes", "grace", "missing", "tokens", "model",
             "languages", "collectors")  # fmt: skip
    said = {name: getattr(about, name) for name in names}
    group, texts = about.release_group or about.contact, tuple(about.texts.items())
    return {**said, "keys": tuple(keys), "release_group": group, "texts": texts, "part": part}


def _limit(about: About, numbers: int) -> int:
    """Bytes of a report of so many numbers, at most."""
    return min(max(512 + (12 if about.collectors else 6) * numbers, 4096), LIMIT)


def _of_table(fit: TableFit, about: About, keys: Sequence[bytes], part: Part) -> PublicPlan:
    """The plan of a table."""
    if bool(about.collectors) != (fit.trust == "two_collectors"):
        _refuse_collectors(about)
    columns = tuple(_column(name, fit.spec.schema, about) for name in fit.columns)
    blocks, role, bits = blocks_of(fit, columns)
    least = max(1, min(LEAST, (fit.rows or 2 * LEAST) // 2)) if about.collectors else 0
    return PublicPlan(
        **_common(about, keys, part),
        **NO_MODEL,
        columns=columns,
        mu=mu_of(fit.spec.budget.mu),
        bits=bits,
        roles={TABLE: role},
        rounds=(Held(TABLE, 0, about.after, least, False),),
        limit=_limit(about, role.numbers),
        table=blocks,
    )


def _of_fit(fit: FitPlan, design: DesignTrees, about: About, keys: Sequence[bytes], part: Part) -> PublicPlan:
    """The plan of a regression."""
    spec, settings = fit.spec, fit.settings
    if settings.efficient is None and spec.trust != "two_collectors":
        raise OptionError("a study in the field goes by rounds; leave tuning='published' out.")
    if spec.unweighted:
        raise OptionError("devices in the field give scores weights; leave score_weights= out.")
    people = spec.people
    gathered = people.gathered and people.followed is None  # whose intervals devices make
    if people.mu is not None or people.cluster is not None or (people.id is not None and people.k_max is None):
        raise OptionError(
            "devices in the field know neither personal budgets, clusters, nor several reports of a person; k_max= "
            "makes one report of several rows."
        )
    if gathered and part.name:
        raise OptionError(
            "k_max: or weights: is of a study with one model, whose devices hold a person's rows; make it a study of "
            "its own, without analyses."
        )
    if gathered and about.missing == "refuse":
        raise OptionError(
            "missing: refuse doesn't go with k_max: or weights:, as rows that lack an answer are left out."
        )
    if about.diary and people.k_max is None:
        raise OptionError("diary_days is of a study of several rows a person; give k_max, or take it out.")
    if about.opens + about.diary >= about.closes:
        raise OptionError("diary_days ends after the study closes; leave days for reports, or close it later.")
    parts, order = _shared(fit, about) if spec.trust == "two_collectors" else _local(fit, about)
    units, at = spec.units, order.tolist()
    cells = tuple(
        Cell(str(spec.design.names[j]), design.exog[j], float(units.centre[j]), float(units.scale[j])) for j in at
    )
    mix = None
    if units.mix is not None:
        mix = tuple(tuple(float(units.mix[j, k]) for k in at) for j in at)
    response = Cell(spec.design.endog_name, design.endog, units.y_centre, units.y_scale)
    offset, schema = design.offset, spec.design.schema
    if people.followed is not None:
        response, offset, schema = _followed(people.followed, schema)
        cells = tuple(cell._replace(tree=_first(cell.tree, people.followed)) for cell in cells)
    if offset is not None and units.y_scale != 1.0:
        offset = ["div", offset, ["const", float(units.y_scale).hex()]]
    numbers = max(role.numbers for role in parts["roles"].values())
    weight = [] if people.weight is None else [people.weight]
    made_of = _ordered(
        dict.fromkeys(
            (*(n for t in (*(c.tree for c in cells), response.tree, offset) for n in trees.names(t)), *weight)
        ),
        about.questions,
    )
    model = {"response": response, "offset": offset, "design": cells, "mix": mix}
    return PublicPlan(
        **_common(about, keys, part),
        **{**NO_MODEL, **model, **parts},
        columns=tuple(_column(name, schema, about) for name in made_of),
        mu=mu_of(spec.budget.mu),
        limit=_limit(about, numbers),
        diary=_diary(spec, about) if gathered else None,
    )


def _followed(of: Followed, schema: Schema) -> tuple[Cell, Any, Schema]:
    """Time as devices' response, negative without an event, that of entry as their offset, and all columns declared."""
    last = 2.0 * of.cuts[-1]
    usual = {of.time: (0.0, last), **({} if of.start is None else {of.start: (-last, last)})}
    full = replace(schema, bounds={**usual, **schema.bounds}, levels={of.event: (0, 1), **schema.levels})
    one, time = ["level", of.event, full.levels[of.event][0] if of.cause is None else of.cause], ["col", of.time]
    ends = (time, ["mul", ["const", (-1.0).hex()], time])[:: -1 if of.cause is None else 1]
    return Cell(ENDED, ["where", one, *ends], 0.0, 1.0), None if of.start is None else ["col", of.start], full


def _first(tree: Any, of: Followed) -> Any:
    """A column's tree in the first interval, where indicators of the others are 0: devices add these themselves."""
    if INTERVAL in trees.names(tree) and tree[:2] != ["level", INTERVAL]:
        raise OptionError(
            f"devices in the field know hazards that are proportional: leave products with C(interval) out of "
            f"{of.written} ~ …, or use a curator or silos."
        )
    return ["const", (0.0).hex()] if INTERVAL in trees.names(tree) else tree


def _diary(spec: ModelSpec, about: About) -> Diary | None:
    """Rules for a report of several rows, or of one that has a weight."""
    people, made = spec.people, spec.persons
    if made is None:
        return None
    effect = people.effect or "none"
    return Diary(people.rows, made.mean, made.one, effect, people.weight or "", about.opens + about.diary)


def _local(fit: FitPlan, about: About) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """Further members of the plan of devices that add noise, and the order of columns inside."""
    engine, order = plan_of(fit.spec, fit.settings, None)
    check_field(engine)
    if about.collectors:
        _refuse_collectors(about)
    shape, gauge = engine.rules.shape, engine.gauge
    roles = roles_of(engine, mu_of(fit.spec.budget.mu))
    rounds = [(r.role, max(r.people, 0), r.optional) for r in engine.rounds]
    return {
        "family": family_of(engine),
        "a": shape.a,
        "b": shape.b,
        "blocks": engine.blocks,
        "bits": lattice.BITS,
        "roles": roles,
        "rounds": tuple(Held(r, n, about.after, int(about.least * n), optional) for r, n, optional in rounds),
        "unscaled": engine.unscaled,
        "constant": bool(engine.extra),
        "moment_response": engine.layout.response,
        "y_max": 0.0 if gauge is None else float(gauge.y_max),
        "silent": gauge is not None and gauge.nonresponse,
        "clamping": tuple(c.name for c in engine.clamps) if "clamping" in roles else (),
    }, order


def _refuse_collectors(about: About) -> Never:
    """Refuse collectors where there are none to be, or none where there are."""
    if about.collectors:
        raise OptionError("a study whose devices add the noise has no collectors to name; write trust: two_collectors.")
    raise OptionError("a study with trust: two_collectors names its two collectors, see `collectors:`.")


def _shared(fit: FitPlan, about: About) -> tuple[dict[str, Any], NDArray[np.intp]]:
    """Further members of the plan of devices that share their reports out, and the order of columns inside."""
    if len(about.collectors) != len(LETTERS):
        _refuse_collectors(about)
    if fit.rows is None:
        raise OptionError("a study with two collectors says how many people are expected; write rows: 3000.")
    known = {FAMILIES[name]: name for name in SUMMED}
    if fit.spec.scored.code not in known:
        raise OptionError(
            f"devices that share their reports out know {', '.join(SUMMED)}, and not yet {fit.family!r}; use one of "
            "these, or trust: local."
        )
    if fit.asked.measures is not None:
        raise OptionError("devices that share their reports out send no measures of fit yet; leave measures= out.")
    engine, order = aggregate.plan_of(fit.spec, fit.rows, like=fit.asked.like)
    shape, roles, sizes = engine.rules.shape, batches.roles_of(engine), engine.sizes
    planned = {role: 0 if role == "main" else max(sizes[role], 1) for role in roles}
    return {
        "family": known[shape.family],
        "a": shape.a,
        "b": shape.b,
        "bits": lattice.bits_of_sums(mu_of(fit.spec.budget.mu)),
        "roles": roles,
        "rounds": tuple(
            Held(role, n, about.after, max(1, min(LEAST, n // 2)), role in {"approach", "closing"})
            for role, n in planned.items()
        ),
        "clamping": tuple(c.name for c in fit.spec.clamps) if "clamping" in roles else (),
        "sums": batches.sums_of(engine),
    }, order


def _ordered(made_of: Iterable[str], questions: Mapping[str, str]) -> list[str]:
    """Columns of the formula in the order of their questions."""
    places = {name: k for k, name in enumerate(questions)}
    return sorted(made_of, key=lambda name: places.get(name, len(places)))


def _column(name: str, schema: Schema, about: About) -> Column:
    """A column as devices get it: its question, and levels with their labels, or bounds."""
    others = about.languages.values()
    if not all(said.get(name) for said in (about.questions, *(one["questions"] for one in others))):
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
    if others and name not in about.choices and any(isinstance(v, str) and any(map(str.isalpha, v)) for v in levels):
        raise SchemaError(
            f"choices has no column {name!r}, whose levels everybody would read as codes; write what they mean in each "
            f"language of the study, such as choices: {{{name}: {{{levels[0]}: {{en: ..., de: ...}}}}}}."
        )
    codes = [label_text(v) for v in levels]
    said = (about.choices, *(one["choices"] for one in others))
    labels = [_labels(name, codes, one[name]) for one in said if name in one]
    return Column(name, levels, float(low), float(high), about.questions[name], labels[0] if labels else ())


def _labels(name: str, codes: Sequence[str], said: Mapping[str, str]) -> tuple[str, ...]:
    """Labels of a column's levels."""
    if not codes:
        raise SchemaError(
            f"choices[{name!r}]: the column has no levels to choose from; declare them, such as levels: {{{name}: "
            f"[{', '.join(said)}]}}, or take the choices out."
        )
    for code in (c for c in said if c not in codes):
        raise SchemaError(
            f"choices[{name!r}] has {shown(code)}, which is no level of the column; they are {', '.join(codes)}."
            f"{meant(code, codes)}"
        )
    lacking = [code for code in codes if not said.get(code)]
    if lacking:
        raise SchemaError(f"choices[{name!r}] has no text for {', '.join(lacking)}; write one for each level.")
    labels = tuple(said[code] for code in codes)
    if len(set(labels)) < len(labels):
        raise SchemaError(f"choices[{name!r}] has the same text for two levels; respondents couldn't tell them apart.")
    return labels
