"""The plan of a study in the field: what a device is told before it sees a row. Standard library only.

`read_plan` checks everything that can be checked without a row or a state: what is unknown to this version is refused,
and so is a radius that doesn't keep the budget.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from . import codes, lattice, sums, trees
from .lattice import Mu
from .sums import Collector, Sums
from .trees import Column
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
}
"""Scores that a device knows; one's own is refused. "balanced" is the logistic score over its larger side."""

ROLES: Final = ("location", "moments", "pilot", "clamping", "main", "measures")

MEASURES: Final = {
    "huber": 3, "squared": 3, "logistic": 3, "balanced": 3, "poisson": 3, "robust_poisson": 3,
    "expectile": 1, "quantile": 1, "hinge": 2, "smoothed_hinge": 2,
}  # fmt: skip
"""Numbers that tell how well a fit predicts; of a multinomial response its classes and one."""

MECHANISM: Final = "rounded_gaussian"
LIMIT: Final = 64 * 1024  # Bytes of a report, at most

MOST_NUMBERS: Final = 12_000  # Numbers of a report, at most: 64 KB hold them

MOST_COLUMNS: Final = 2000
MOST_LEVELS: Final = 200
LONGEST_LABEL: Final = 200  # Characters of what respondents read for a level, at most
MOST_ROUNDS: Final = 1000
MOST_GROUPS: Final = 64
MOST_BLOCKS: Final = 49
MOST_MU: Final = 10**7  # Numerator and denominator of a budget, at most

LATEST: Final = 1 << 36
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Cell(NamedTuple):
    """A column of the design: inside it is (tree − centre)/scale."""

    name: str
    tree: Any  # See `trees`
    centre: float
    scale: float


class Role(NamedTuple):
    """A form of report."""

    form: str  # One of `lattice.FORMS`
    numbers: int
    radius: int
    groups: int  # Random groups that answer apart


class Held(NamedTuple):
    """A round."""

    role: str
    total: int  # Reports that close it; 0: what is left
    after: int  # Seconds after which it is closed whatever came; 0: never
    least: int  # Reports without which it isn't closed by age
    optional: bool  # Whether it is held only if it pays


class PublicPlan(NamedTuple):
    """What is fixed and public before the first report."""

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
    constant: bool  # Whether moments have a constant added, as the design has none
    moment_response: bool  # Whether moments have the response less its offset, or the offset: see `codes.SCALED`
    wide: tuple[int, ...]  # Columns that tell means and squares in place of moments, if the design is wide
    edges: tuple[float, ...]  # How far each of these reaches over the public box
    is_wide: bool
    y_max: float  # Largest count by which measures of fit are told
    silent: bool  # Whether measures of fit tell who has nothing to tell
    model: Mapping[str, Any]  # What the collector is told beside: the formula, schema and options; no device reads it
    texts: tuple[tuple[str, str], ...] = ()  # Words of the survey's page, by name; no report depends on them
    clamping: tuple[str, ...] = ()  # Columns of which a role tells whether their bounds clamp an answer
    collectors: tuple[Collector, ...] = ()  # Two, if noise is added to sums of shares; none if devices add it
    sums: Sums | None = None  # What reports to two collectors are made of

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
        """The budget in digits."""
        return f"{self.mu.p / self.mu.q:.4g}"

    def numbers(self, role: str, form: str) -> int:
        """Numbers in a report of a role: what a device makes, whatever the plan says."""
        if self.sums is not None:
            of, bounded = self.sums, len(self.clamping)
            return sums.width(
                role, d=self.d, bounded=bounded, located=of.located, cornered=of.cornered, scaled=of.scaled
            )
        if role == "location":
            return len(self.unscaled)
        if role == "clamping":
            return len(self.clamping)
        if role == "measures":
            told = self.blocks + 2 if self.family == "multinomial" else MEASURES[self.family]
            return told + int(self.silent)
        if role == "moments" and self.is_wide:
            return 2 * len(self.wide)
        if role == "moments":
            size = self.d + int(self.constant) + int(self.moment_response)
            return size * (size + 1) // 2
        return self.size + int(form == lattice.JOINT)


def _columns(record: Record) -> dict[str, Column]:
    out: dict[str, Column] = {}
    for one in record.items("columns", most=MOST_COLUMNS):
        each = Record(one, "a column")
        name, kind = each.text("name", 256), each.choice("kind", ("number", "levels"))
        low, high, levels, labels = -math.inf, math.inf, tuple[trees.Label, ...](), tuple[str, ...]()
        if kind == "number":
            low, high = each.real("low", infinite=True), each.real("high", infinite=True)
            if low > high or low == math.inf or high == -math.inf:
                raise MessageError("a column has empty bounds.")
        else:
            found = each.items("levels", most=MOST_LEVELS)
            if any(not isinstance(v, str | int) for v in found):
                raise MessageError("levels of a column must be strings, integers, true or false.")
            must_show(found, f"levels of the column {name!r}")
            levels = tuple(found)
            if len({trees.label_text(v) for v in levels}) != len(levels) or len(levels) < 2:
                raise MessageError("a column must have two levels or more, no two of the same text.")
            if each.has("labels"):  # of which columns whose levels are shown as they are say nothing
                held = (Record({"label": v}, f"the column {name!r}") for v in each.items("labels", len(levels)))
                labels = tuple(one.text("label", LONGEST_LABEL) for one in held)
                if len(set(labels)) != len(labels):
                    raise MessageError("a column has two labels that are alike.")
        ask = each.text("ask", 2000)
        each.done()
        if name in out:
            raise MessageError("a column is declared twice.")
        out[name] = Column(name, levels, low, high, ask, labels)
    return out


def _cell(record: Record, columns: Mapping[str, Column]) -> Cell:
    name, tree = record.text("name", 1000), record.take("tree")
    centre, scale = record.real("centre"), record.real("scale")
    record.done()
    trees.check(tree, columns, "a column of the design")
    if scale == 0.0:
        raise MessageError("a column of the design has the scale 0.")
    return Cell(name, tree, centre, scale)


def _roles(record: Record, *, shared: bool) -> dict[str, Role]:
    out = {}
    for name in sums.ROLES if shared else ROLES:
        if name == "clamping" and not record.has(name):  # of which plans without it say nothing
            continue
        one = record.optional(name)
        if one is None:
            continue
        out[name] = Role(
            one.choice("form", lattice.SUM_FORMS if shared else lattice.FORMS),
            one.integer("numbers", 1, sums.MOST_NUMBERS if shared else MOST_NUMBERS),
            one.integer("radius", 1, lattice.LARGEST - 1),
            one.integer("groups", 1, MOST_GROUPS),
        )
        one.done()
    record.done()
    return out


def _forms(role: str, wide: bool) -> tuple[str, ...]:
    if role in {"location", "clamping", "measures"} or (role == "moments" and wide):
        return (lattice.BOX,)
    if role == "moments":
        return (lattice.MOMENTS,)
    return (lattice.BALL, lattice.JOINT) if role == "pilot" else (lattice.BALL,)


def _rounds(record: Record, roles: Mapping[str, Role]) -> tuple[Held, ...]:
    out = []
    for one in record.items("rounds", most=MOST_ROUNDS):
        each = Record(one, "a round")
        out.append(
            Held(
                each.choice("role", tuple(roles)),
                each.integer("total", 0, 1 << 48),
                each.integer("after", 0, LATEST),
                each.integer("least", 0, 1 << 48),
                each.flag("optional"),
            )
        )
        each.done()
    if not out:
        raise MessageError("a plan has at least one round.")
    return tuple(out)


def read_plan(payload: bytes) -> PublicPlan:
    """Read the payload of a plan whose signature was verified.

    Raises
    ------
    MessageError
        If anything is unknown to this version, out of range, or not private: the text names the member.
    """
    record = Record(loads(payload, "the plan"), "the plan")
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
    collectors = sums.read_collectors(record, tuple(keys))
    columns = _columns(record)
    design = record.object("design")
    response = _cell(design.object("response"), columns)
    offset = design.take("offset")
    if offset is not None:
        trees.check(offset, columns, "the offset")
    held = design.items("columns", most=MOST_COLUMNS)
    cells = tuple(_cell(Record(c, "a column of the design"), columns) for c in held)
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
    privacy = record.object("privacy")
    p, q = privacy.integers("mu", 1, MOST_MU, 2)
    privacy.fixed("mechanism", sums.MECHANISM if collectors else MECHANISM)
    bits = lattice.bits_of_sums(Mu(p, q)) if collectors else lattice.BITS
    privacy.integer("bits", bits, bits)
    if not collectors:
        privacy.fixed("clamp", lattice.CLAMP)
    group = privacy.text("release_group", 256)
    privacy.done()
    roles = _roles(record.object("roles"), shared=bool(collectors))
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
        response=response,
        offset=offset,
        design=cells,
        mix=mix,
        family=family,
        a=a,
        b=b,
        blocks=blocks,
        mu=Mu(p, q),
        bits=bits,
        roles=roles,
        missing=record.choice("missing", ("noise", "refuse")),
        rounds=_rounds(record, roles),
        tokens=record.choice("tokens", ("issued", "open")),
        limit=record.integer("limit", 512, LIMIT),
        release_group=group,
        unscaled=record.integers("unscaled", 0, d),
        constant=constant,
        moment_response=moment_response,
        wide=wide,
        edges=edges,
        is_wide=wide_record is not None,
        y_max=y_max,
        silent=silent,
        model=record.mapping("model"),
        texts=_texts(record.aside("x_texts")),
        clamping=_clamping(record, roles, columns),
        collectors=collectors,
        sums=sums.read_sums(record, d) if collectors else None,
    )
    record.done()
    _check_reports(plan)
    return plan


def _texts(value: object) -> tuple[tuple[str, str], ...]:
    """Words of the page, if they are some."""
    found = value.items() if isinstance(value, dict) else ()
    out = tuple((k, v) for k, v in found if isinstance(v, str))
    must_show((text for pair in out for text in pair), "'x_texts' of the plan")
    return out


def _clamping(record: Record, roles: Mapping[str, Role], columns: Mapping[str, Column]) -> tuple[str, ...]:
    """Columns of which a role tells whether they are clamped; a plan without the role has no such member."""
    if "clamping" not in roles:
        return ()
    names = tuple(record.items("clamping", most=MOST_COLUMNS))
    if len(set(map(str, names))) != len(names):
        raise MessageError("'clamping' of the plan names a column twice.")
    for name in names:
        own = columns.get(name) if isinstance(name, str) else None
        if own is None or own.levels or not (math.isfinite(own.low) or math.isfinite(own.high)):
            raise MessageError("'clamping' of the plan must name columns with bounds.")
    return names


def _check_score(family: str, a: float, b: float, blocks: int) -> None:
    """Numbers for which a score lies in [−1, 1]; it is clipped to it besides."""
    fine = {
        "expectile": 0.0 < a < 1.0 and b == max(a, 1.0 - a),
        "quantile": 0.0 < a < 1.0 and b == max(a, 1.0 - a),
        "squared": a < b,
        **dict.fromkeys(("poisson", "robust_poisson", "smoothed_hinge"), a > 0.0),
    }.get(family, True)
    if not fine or (blocks > 1) != (family == "multinomial"):
        raise MessageError("'score' of the plan has numbers that its family doesn't go with.")


def _check_reports(plan: PublicPlan) -> None:
    """Refuse radii that don't keep the budget, and reports that are not what a device makes."""
    if sum(trees.check(c.tree, {x.name: x for x in plan.columns}, "the design") for c in plan.design) > trees.MOST:
        raise MessageError("the design is too large.")
    if plan.sums is not None and (plan.family not in sums.FAMILIES or plan.is_wide or plan.unscaled):
        raise MessageError("the plan asks for reports that two collectors don't add up.")
    for name, role in plan.roles.items():
        forms = _forms(name, plan.is_wide) if plan.sums is None else (sums.form_of(name),)
        if role.form not in forms or role.numbers != plan.numbers(name, role.form):
            raise MessageError(f"the role {name!r} has another form of report, or other numbers, than devices make.")
        if role.groups > 1 and (plan.sums is not None or name not in {"location", "main"}):
            raise MessageError(f"the role {name!r} has one group.")
        if not lattice.is_private(role.form, role.numbers, role.radius, plan.mu, plan.bits):
            raise MessageError(f"the radius of the role {name!r} breaks the budget: the noise would be too small.")


def plan_payload(plan: PublicPlan) -> bytes:
    """Write the payload of a plan; reading it gives the same plan.

    Raises
    ------
    MessageError
        If it wouldn't be accepted.
    """
    payload = dumps(_plan_object(plan))
    if len(payload) > LONGEST:
        raise MessageError(f"the plan is longer than {LONGEST} bytes.")
    read_plan(payload)
    return payload


def _column_object(column: Column) -> dict[str, Any]:
    if column.levels:
        labels = {"labels": list(column.labels)} if column.labels else {}
        return {"name": column.name, "kind": "levels", "levels": list(column.levels), **labels, "ask": column.ask}
    bounds = {"low": text_of(column.low), "high": text_of(column.high)}
    return {"name": column.name, "kind": "number", **bounds, "ask": column.ask}


def _plan_object(plan: PublicPlan) -> dict[str, Any]:
    shared = plan.sums is not None
    named = [r for r in (sums.ROLES if shared else ROLES) if r != "clamping" or r in plan.roles]
    clamping = {"clamping": list(plan.clamping)} if "clamping" in plan.roles else {}
    wide = {"columns": list(plan.wide), "edges": plain(plan.edges)} if plan.is_wide else None
    texts = {"x_texts": dict(plan.texts)} if plan.texts else {}
    beside: dict[str, Any] = {}
    if plan.sums is not None:
        beside = {"collectors": plain(plan.collectors), "sums": plain(plan.sums)}
    return {
        "v": VERSION,
        "study": plan.study,
        "title": plan.title,
        "purpose": plan.purpose,
        "contact": plan.contact,
        "opens": plan.opens,
        "closes": plan.closes,
        "grace": plan.grace,
        "keys": [{"kid": key_id(k), "key": base(k)} for k in plan.keys],
        "columns": [_column_object(c) for c in plan.columns],
        "design": {
            "response": plain(plan.response),
            "offset": plan.offset,
            "columns": plain(plan.design),
            "mix": plain(plan.mix),
        },
        "score": {"family": plan.family, "a": text_of(plan.a), "b": text_of(plan.b), "blocks": plan.blocks},
        "privacy": {
            "mu": list(plan.mu),
            "mechanism": sums.MECHANISM if shared else MECHANISM,
            "bits": plan.bits,
            **({} if shared else {"clamp": lattice.CLAMP}),
            "release_group": plan.release_group,
        },
        "roles": {r: plan.roles[r]._asdict() if r in plan.roles else None for r in named},
        "moments": {"constant": plan.constant, "response": plan.moment_response, "wide": wide},
        "unscaled": list(plan.unscaled),
        "measures": {"y_max": text_of(plan.y_max), "silent": plan.silent},
        "missing": plan.missing,
        "rounds": [r._asdict() for r in plan.rounds],
        "tokens": plan.tokens,
        "limit": plan.limit,
        "score_weights": "unit",
        "record_weight": None,
        "cluster": None,
        "model": dict(plan.model),
        **texts,
        **clamping,
        **beside,
    }
