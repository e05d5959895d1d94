"""The plan of a study in the field: what a device is told before it sees a row. Standard library only.

`read_plan` checks everything that can be checked without a row or a state: what is unknown to this version is refused,
and so is a radius that doesn't keep the budget.
"""

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from privreg.protocol import codes, lattice, sums
from privreg.protocol.codes import MOST_COLUMNS
from privreg.protocol.lattice import Mu
from privreg.protocol.sums import FORMAT, SumAsk, Sums, distance2

from . import analyses, tables, trees
from .analyses import MOST_MU, Part
from .collectors import MECHANISM as OF_SUMS
from .collectors import Collector, read_collectors, read_sums
from .roles import LATEST, ROLES, SELDOM, TABLE, Diary, Held, Role, forms_of, read_diary, read_roles, read_rounds
from .tables import Block
from .trees import Cell, Column, column_object, read_cell, read_columns
from .wire import KEY, LONGEST, VERSION, MessageError, Record, base, dumps, key_id, loads, must_show, plain, text_of

FAMILIES: Final = {
    "huber": codes.HUBER,
    "expectile": codes.EXPECTILE,
    "quantile": codes.QUANTILE,
    "squared": codes.SQUARED,
    "logistic": codes.LOGISTIC,
    "balanced": codes.BALANCED,
    "multinomial": codes.MULTINOMIAL,
    "poisson": codes.POISSON,
    "robust_poisson": codes.ROBUST_POISSON,
    "hinge": codes.HINGE,
    "smoothed_hinge": codes.SMOOTHED_HINGE,
    "cloglog": codes.CLOGLOG,
    "ordered": codes.ORDERED,
    "negative_binomial": codes.NEGATIVE_BINOMIAL,
    "tobit": codes.TOBIT,
    "hazards": codes.HAZARDS,
}
"""Scores that a device knows; one's own is refused. "balanced" is the logistic score over its larger side."""

MEASURES: Final = {
    "huber": 3, "squared": 3, "logistic": 3, "balanced": 3, "poisson": 3, "robust_poisson": 3,
    "expectile": 1, "quantile": 1, "hinge": 2, "smoothed_hinge": 2, "cloglog": 3, "ordered": 0,
    "negative_binomial": 3, "tobit": 0, "hazards": 0,
}  # fmt: skip
"""Numbers that tell how well a fit predicts; of a multinomial response its classes and one."""

MECHANISM: Final = "rounded_gaussian"
LIMIT: Final = 64 * 1024  # Bytes of a report, at most

MOST_BLOCKS: Final = 49

_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class PublicPlan(NamedTuple):
    """Plan of an analysis: all that is fixed and public before the first report."""

    study: str  # Short name in addresses
    title: str
    purpose: str
    contact: str
    opens: int  # Seconds since 1970 UTC, as all times
    closes: int
    grace: int  # Seconds after closing in which reports still count
    keys: tuple[bytes, ...]  # Public Ed25519 keys, one of which signs every state
    columns: tuple[Column, ...]
    response: Cell
    offset: Any  # Tree, or None; in units of the response's scale
    design: tuple[Cell, ...]
    mix: tuple[tuple[float, ...], ...] | None  # Rows inside are multiplied by it; shape (d, d)
    family: str
    a: float  # See `plans.Shape`
    b: float
    blocks: int  # Linear predictors: 1, or one less than the classes
    mu: Mu
    bits: int
    roles: Mapping[str, Role]
    missing: str  # "noise", or "refuse": whoever lacks a value isn't asked, which shows
    rounds: tuple[Held, ...]
    tokens: str  # "issued" or "open"
    limit: int  # Bytes of a report
    release_group: str  # Studies of one group share a yearly budget on a device
    unscaled: tuple[int, ...]  # Columns that tell where they lie; d stands for the response
    constant: bool  # Moments have a constant added, as the design has none
    moment_response: bool  # Moments have the response less its offset, or the offset: see `codes.SCALED`
    wide: tuple[int, ...]  # Columns that tell means and squares in place of moments, if the design is wide
    edges: tuple[float, ...]  # Reach of each of these over the public box
    is_wide: bool
    y_max: float  # Largest count by which measures of fit are told
    silent: bool  # Measures of fit tell nonresponse
    model: Mapping[str, Any]  # Formula, schema and options for the collector; no device reads it
    texts: tuple[tuple[str, str], ...] = ()  # Words of the survey's page, by name; no report depends on them
    clamping: tuple[str, ...] = ()  # Columns of which a role tells whether their bounds clamp an answer
    collectors: tuple[Collector, ...] = ()  # Two, if noise is added to sums of shares; none if devices add it
    sums: Sums | None = None  # Constants of reports of a regression to two collectors
    table: tuple[Block, ...] = ()  # Blocks of a table; of a regression nothing
    part: Part = Part()  # Which analysis of the study it is, where there are several
    languages: Mapping[str, Any] = {}  # Texts in other languages; no report depends on them
    diary: Diary | None = None  # Rules for a report of several rows; None if a report is of one row
    asks: tuple[str, ...] = ()  # Columns that respondents are asked about; none: those of this analysis alone

    @property
    def together(self) -> Mu:
        """Budget of a person for all of the study."""
        return self.part.whole or self.mu

    @property
    def slug(self) -> str:
        """Name of the analysis among all of a server or device: the study's, and its own if there are several."""
        return f"{self.study}/{self.part.name}" if self.part.name else self.study

    @property
    def path(self) -> str:
        """Path of the analysis below the address of the study."""
        return f"/analyses/{self.part.name}" if self.part.name else ""

    @property
    def used(self) -> tuple[Column, ...]:
        """Columns that the analysis uses, in the plan's order."""
        found = {n for c in (*self.design, self.response) for n in trees.names(c.tree)} | set(trees.names(self.offset))
        found |= {name for block in self.table for name in block.columns}
        found |= {self.diary.weight} if self.diary else set()
        return tuple(c for c in self.columns if c.name in found)

    @property
    def form(self) -> tuple[Column, ...]:
        """Columns that its respondents are asked about."""
        return tuple(c for c in self.columns if c.name in self.asks) if self.asks else self.used

    @property
    def d(self) -> int:
        """Columns of the design."""
        return len(self.design)

    @property
    def size(self) -> int:
        """Coefficients."""
        return self.blocks * self.d

    @property
    def title_of_mu(self) -> str:
        """The budget of a person in digits."""
        return f"{self.together.p / self.together.q:.4g}"

    def role_of(self, ask: Any) -> Role:
        """The role that a state asks for, with the state's own radius where there are two collectors."""
        role = self.roles[ask.role]
        return role._replace(radius=ask.radius) if isinstance(ask, SumAsk) else role

    def distance2(self, role: str, ask: SumAsk | None = None) -> Fraction:
        """Largest squared distance of two reports of norm 1 at most to two collectors: to a state, or to any."""
        if self.sums is None:
            return lattice.FARTHEST
        at = None if ask is None or self.offset is not None else (ask.theta, ask.reach)
        of, family, rows = self.sums, FAMILIES[self.family], self.diary.rows if self.diary else 0
        rows = max(rows, 1) * len(of.cuts) or rows
        return distance2(role, of.shares, family, rows, of.located, at, scaled=of.scaled)

    def numbers(self, role: str, form: str) -> int:
        """Numbers in a report of a role: what a device makes, whatever the plan says."""
        if role == TABLE:
            return tables.width(self.table, {c.name: c for c in self.columns}, gaps=self.missing == "noise")
        if self.sums is not None:
            of, bounded = self.sums, len(self.clamping)
            if of.edges and role in {"location", "moments"}:  # events and times at risk by interval; no response
                return 2 * (of.located + len(of.cuts)) if role == "location" else self.d * (self.d + 1) // 2
            return sums.width(
                role, d=self.d, bounded=bounded, located=of.located, cornered=of.cornered, scaled=of.scaled,
                persons=self.diary is not None or bool(of.cuts),
            )  # fmt: skip
        if role == "location":
            return len(self.unscaled)
        if role == "clamping":
            return len(self.clamping)
        if role == "measures":
            measures = self.blocks + 2 if self.family == "multinomial" else MEASURES[self.family]
            return measures + int(self.silent)
        if role == "moments" and self.is_wide:
            return 2 * len(self.wide)
        if role == "moments":
            size = self.d + int(self.constant) + int(self.moment_response)
            return size * (size + 1) // 2
        return self.size + int(form == lattice.JOINT)


def read_plan(payload: bytes) -> PublicPlan:
    """Read the plan of a study with one analysis; see `read_plans`."""
    plans = read_plans(payload)
    if len(plans) > 1:
        raise MessageError("the plan has several analyses.")
    return plans[0]


def read_plans(payload: bytes) -> tuple[PublicPlan, ...]:
    """Read the payload of a plan whose signature was verified: a plan for each analysis, in order.

    Raises
    ------
    MessageError
        If anything is unknown to this version, out of range, or not private: the text names the member.
    """
    plans = tuple(_read(entry, part) for part, entry in analyses.parts_of(loads(payload, "the plan")))
    if len({plan.release_group for plan in plans}) > 1:
        raise MessageError("the analyses of a study are of one release group.")
    if analyses.together((p.mu, p.part.people) for p in plans) > Fraction(*plans[0].together) ** 2:
        raise MessageError("the analyses' budgets are more than the study's together.")
    if not plans[0].part.name:
        return plans
    asked = [{c.name for p in plans if p.part.people == plan.part.people for c in p.used} for plan in plans]
    return tuple(
        plan._replace(asks=tuple(c.name for c in plan.columns if c.name in names))
        for plan, names in zip(plans, asked, strict=True)
    )


def alike(plans: Sequence[PublicPlan]) -> bool:
    """True if several analyses are of one model, each of other people."""
    models, people = {str(plan.model.get("declared")) for plan in plans}, {plan.part.people for plan in plans}
    return len(models) == 1 < len(people) == len(plans) and not plans[0].table


def _read(said: dict[str, Any], part: Part) -> PublicPlan:
    """An analysis, with all that its plan says."""
    record = Record(said, "the plan")
    record.fixed("v", VERSION)
    for name, only in (("score_weights", "unit"), ("record_weight", None), ("cluster", None)):
        record.fixed(name, only)  # reserved
    study = record.text("study", 63)
    if not _SLUG.fullmatch(study):
        raise MessageError("'study' of the plan must be a short name: a-z, 0-9, - and _.")
    opens, closes = record.integer("opens", 0, LATEST), record.integer("closes", 0, LATEST)
    if opens >= closes:
        raise MessageError("the plan closes before it opens.")
    keys = []
    for one in record.items("keys", most=64):
        each = Record(one, "a key")
        kid, key = each.text("kid", 32), each.binary("key", KEY)
        each.done()
        if kid != key_id(key):
            raise MessageError("a key of the plan has another key's name.")
        keys.append(key)
    collectors = read_collectors(record, tuple(keys))
    columns = read_columns(record)
    privacy = record.object("privacy")
    p, q = privacy.integers("mu", 1, MOST_MU, 2)
    privacy.fixed("mechanism", OF_SUMS if collectors else MECHANISM)
    bits = lattice.bits_of_sums(Mu(p, q)) if collectors else lattice.BITS
    privacy.integer("bits", bits, bits)
    if not collectors:
        privacy.fixed("clamp", lattice.CLAMP)
    group = privacy.text("release_group", 256)
    privacy.done()
    roles = read_roles(record.object("roles"), shared=bool(collectors))
    read = _of_table if record.has("table") else _of_regression
    plan = PublicPlan(
        study=study,
        title=record.text("title", 200),
        purpose=record.text("purpose", lines=True),
        contact=record.text("contact", 1000),
        opens=opens,
        closes=closes,
        grace=record.integer("grace", 0, LATEST),
        keys=tuple(keys),
        columns=tuple(columns.values()),
        mu=Mu(p, q),
        bits=bits,
        roles=roles,
        missing=record.choice("missing", ("noise", "refuse")),
        rounds=read_rounds(record, roles),
        tokens=record.choice("tokens", ("issued", "open")),
        limit=record.integer("limit", 512, LIMIT),
        release_group=group,
        model=record.mapping("model"),
        texts=_texts(record.aside("x_texts")),
        languages=_languages(record.aside("x_languages")),
        clamping=_clamping(record, roles, columns),
        collectors=collectors,
        part=part,
        **read(record, columns, shared=bool(collectors), times=(opens, closes - 1)),
    )
    record.done()
    _check_reports(plan)
    return plan


NO_MODEL: Final[dict[str, Any]] = {
    "response": Cell("table", ["const", text_of(0.0)], 0.0, 1.0), "offset": None, "design": (), "mix": None,
    "family": "table", "a": 0.0, "b": 0.0, "blocks": 1, "unscaled": (), "constant": False, "moment_response": False,
    "wide": (), "edges": (), "is_wide": False, "y_max": 0.0, "silent": False,
}  # fmt: skip
"""Members of a table's plan in the places of a regression's model."""


def _of_table(record: Record, columns: Mapping[str, Column], *, shared: bool, times: tuple[int, int]) -> dict[str, Any]:
    """Blocks of a table."""
    del shared, times
    return {**NO_MODEL, "table": tables.read_blocks(record, columns)}


def _of_regression(
    record: Record, columns: Mapping[str, Column], *, shared: bool, times: tuple[int, int]
) -> dict[str, Any]:
    """Design and score of a regression, and what its reports have beside."""
    design = record.object("design")
    response = read_cell(design.object("response"), columns)
    offset = design.take("offset")
    if offset is not None:
        trees.check(offset, columns, "the offset")
    held = design.items("columns", most=MOST_COLUMNS)
    cells = tuple(read_cell(Record(c, "a column of the design"), columns) for c in held)
    if not cells:
        raise MessageError("a design has at least one column.")
    d, mix = len(cells), design.take("mix")
    if mix is not None:
        if not isinstance(mix, list) or len(mix) != d:
            raise MessageError("'mix' of the design must be a square matrix, or null.")
        mix = tuple(Record({"row": row}, "'mix' of the design").reals("row", d) for row in mix)
    design.done()
    score = record.object("score")
    family = score.choice("family", tuple(FAMILIES))
    a, b, blocks = score.real("a"), score.real("b"), score.integer("blocks", 1, MOST_BLOCKS)
    score.done()
    _check_score(family, a, b, blocks)
    extra = record.object("moments")
    constant, moment_response = extra.flag("constant"), extra.flag("response")
    wide_record = extra.optional("wide")
    wide, edges = tuple[int, ...](), tuple[float, ...]()
    if wide_record is not None:
        wide = wide_record.integers("columns", 0, d - 1)
        edges = wide_record.reals("edges", len(wide))
        wide_record.done()
        if not all(e > 0.0 for e in edges):
            raise MessageError("'edges' of wide moments must be positive.")
    extra.done()
    measures = record.object("measures")
    y_max, silent = measures.real("y_max"), measures.flag("silent")
    measures.done()
    return {
        "response": response, "offset": offset, "design": cells, "mix": mix, "family": family, "a": a, "b": b,
        "blocks": blocks, "unscaled": record.integers("unscaled", 0, d), "constant": constant,
        "moment_response": moment_response, "wide": wide, "edges": edges, "is_wide": wide_record is not None,
        "y_max": y_max, "silent": silent, "sums": read_sums(record, d) if shared else None,
        "diary": read_diary(record, columns, family, times),
    }  # fmt: skip


def _texts(value: object) -> tuple[tuple[str, str], ...]:
    """Words of the page, if they are some."""
    found = value.items() if isinstance(value, dict) else ()
    out = tuple((k, v) for k, v in found if isinstance(v, str))
    must_show((text for pair in out for text in pair), "'x_texts' of the plan")
    return out


def _languages(value: object) -> dict[str, Any]:
    """Texts of a study in other languages, by code, if they are some."""
    found: list[object] = [value] if isinstance(value, dict) else []
    while found:
        one = found.pop()
        if isinstance(one, dict):
            found += [*one, *one.values()]
        elif isinstance(one, str):
            must_show([one], "'x_languages' of the plan", lines=True)
        else:
            raise MessageError("'x_languages' of the plan holds texts.")
    return value if isinstance(value, dict) else {}


def _clamping(record: Record, roles: Mapping[str, Role], columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Columns of which a role tells whether they are clamped; a plan without the role has no such member."""
    if "clamping" not in roles:
        return ()
    names = tuple(record.items("clamping", most=MOST_COLUMNS))
    if len(set(map(str, names))) != len(names):
        raise MessageError("'clamping' of the plan names a column twice.")
    for name in names:
        column = columns.get(name) if isinstance(name, str) else None
        if column is None or column.levels or not (math.isfinite(column.low) or math.isfinite(column.high)):
            raise MessageError("'clamping' of the plan must name columns with bounds.")
    return names


def _check_score(family: str, a: float, b: float, blocks: int) -> None:
    """Numbers for which a score lies in [−1, 1]; it is clipped to it besides."""
    fine = {
        "expectile": 0.0 < a < 1.0 and b == max(a, 1.0 - a),
        "quantile": 0.0 < a < 1.0 and b == max(a, 1.0 - a),
        **dict.fromkeys(("squared", "tobit"), a < b),
        **dict.fromkeys(("poisson", "robust_poisson", "negative_binomial", "smoothed_hinge"), a > 0.0),
    }.get(family, True)
    if not fine or (blocks > 1) != (family == "multinomial"):
        raise MessageError("'score' of the plan has numbers that its family doesn't go with.")


def _check_reports(plan: PublicPlan) -> None:
    """Refuse radii that don't keep the budget, and reports that are not what a device makes."""
    columns, shared = {c.name: c for c in plan.columns}, bool(plan.collectors)
    if sum(trees.check(c.tree, columns, "the design") for c in plan.design) > trees.MOST:
        raise MessageError("the design is too large.")
    of = plan.sums  # slopes of logits are ¼ at most
    logits = of is not None and plan.family in {"logistic", "ordered"}
    odd = logits and of is not None and not (of.top >= 0.25 and of.y_low >= 0.0 and of.y_high <= 1.0)
    cuts, edges = (False, False) if of is None else (bool(of.cuts), bool(of.edges))
    odd = odd or (plan.family in {"ordered", "hazards"}, plan.family == "hazards") != (cuts, edges)
    odd = odd or (of is not None and bool(of.cuts) and (of.scaled or of.cornered))
    odd = odd or (plan.family == "poisson" and plan.b != float(of is not None))  # of sums the likelihood's score
    odd = odd or (of is None and FAMILIES.get(plan.family) in codes.EXTRA)  # its parameter is learned of sums
    if odd or (of is not None and (plan.family not in sums.FAMILIES or plan.is_wide or plan.unscaled)):
        raise MessageError("the plan asks for reports that two collectors don't add up.")
    beside = plan.part.name or plan.missing == "refuse" or plan.unscaled or plan.is_wide or "measures" in plan.roles
    if plan.diary is not None and beside:
        raise MessageError("a diary goes with one analysis, missing 'noise', public bounds, and no measures of fit.")
    if (TABLE in plan.roles) != bool(plan.table) or (plan.table and len(plan.roles) > 1):
        raise MessageError("a table has one role, and no regression has it.")
    for name, role in plan.roles.items():
        forms = (sums.form_of(name),) if shared else forms_of(name, wide=plan.is_wide)
        if role.form not in forms or role.numbers != plan.numbers(name, role.form):
            raise MessageError(f"the role {name!r} has another form of report, or other numbers, than devices make.")
        if role.groups > 1 and (shared or name not in {"location", "main"}):
            raise MessageError(f"the role {name!r} has one group.")
        kept = lattice.is_private(role.form, role.numbers, role.radius, plan.mu, plan.bits, plan.distance2(name))
        if not kept or tables.distance2(plan.table, columns) > role.radius**2:
            raise MessageError(f"the radius of the role {name!r} breaks the budget: the noise would be too small.")


def plan_payload(*plans: PublicPlan) -> bytes:
    """Write the payload of the plan of these analyses; reading it gives the same plans.

    Raises
    ------
    MessageError
        If it wouldn't be accepted.
    """
    payload = dumps(_plan_object(plans))
    if len(payload) > LONGEST:
        raise MessageError(f"the plan is longer than {LONGEST} bytes.")
    read_plans(payload)
    return payload


_ORDER: Final = (
    "v", "study", "title", "purpose", "contact", "opens", "closes", "grace", "keys", "columns", "design", "score",
    "privacy", "roles", "moments", "unscaled", "measures", "missing", "rounds", "tokens", "limit", "score_weights",
    "record_weight", "cluster", "model", "x_texts", "x_languages", "clamping", "collectors",
    "sums", "table", "diary", "together", "analyses",
)  # fmt: skip


def _plan_object(plans: Sequence[PublicPlan]) -> dict[str, Any]:
    plan, each = plans[0], [_analysis_object(one) for one in plans]
    members: dict[str, Any] = each[0]
    if plan.part.name:
        ends = None if all(p.part.people == Part().people for p in plans) else [p.part.people[1] for p in plans]
        named = [{"name": p.part.name, **one} for p, one in zip(plans, each, strict=True)]
        members = {"together": {"mu": list(plan.together), "below": ends}, "analyses": named}
    out = {
        "v": VERSION,
        "study": plan.study,
        "title": plan.title,
        "purpose": plan.purpose,
        "contact": plan.contact,
        "opens": plan.opens,
        "closes": plan.closes,
        "grace": plan.grace,
        "keys": [{"kid": key_id(k), "key": base(k)} for k in plan.keys],
        "columns": [column_object(c) for c in plan.columns],
        "missing": plan.missing,
        "tokens": plan.tokens,
        "limit": plan.limit,
        "score_weights": "unit",
        "record_weight": None,
        "cluster": None,
        **({"x_texts": dict(plan.texts)} if plan.texts else {}),
        **({"x_languages": dict(plan.languages)} if plan.languages else {}),
        **({"collectors": plain(plan.collectors)} if plan.collectors else {}),
        **members,
    }
    return {name: out[name] for name in _ORDER if name in out}


def _sums_object(of: Sums) -> dict[str, Any]:
    """Constants of reports to two collectors as JSON has them: cut points and intervals only where there are some."""
    out: dict[str, Any] = plain(of)
    return {name: member for name, member in out.items() if member or name not in {"cuts", "edges"}}


def _analysis_object(plan: PublicPlan) -> dict[str, Any]:
    """Members of one analysis as JSON has them."""
    shared = bool(plan.collectors)
    named = [r for r in (*(sums.ROLES if shared else ROLES), TABLE) if r not in SELDOM or r in plan.roles]
    wide = {"columns": list(plan.wide), "edges": plain(plan.edges)} if plan.is_wide else None
    regression = {
        "design": {
            "response": plain(plan.response),
            "offset": plan.offset,
            "columns": plain(plan.design),
            "mix": plain(plan.mix),
        },
        "score": {"family": plan.family, "a": text_of(plan.a), "b": text_of(plan.b), "blocks": plan.blocks},
        "moments": {"constant": plan.constant, "response": plan.moment_response, "wide": wide},
        "unscaled": list(plan.unscaled),
        "measures": {"y_max": text_of(plan.y_max), "silent": plan.silent},
        **({} if plan.sums is None else {"sums": {"format": FORMAT, **_sums_object(plan.sums)}}),
        **({} if plan.diary is None else {"diary": plain(plan.diary)}),
    }
    return {
        "privacy": {
            "mu": list(plan.mu),
            "mechanism": OF_SUMS if shared else MECHANISM,
            "bits": plan.bits,
            **({} if shared else {"clamp": lattice.CLAMP}),
            "release_group": plan.release_group,
        },
        "roles": {r: plan.roles[r]._asdict() if r in plan.roles else None for r in named},
        "rounds": [r._asdict() for r in plan.rounds],
        "model": dict(plan.model),
        **({"clamping": list(plan.clamping)} if "clamping" in plan.roles else {}),
        **({"table": plain(plan.table)} if plan.table else regression),
    }
