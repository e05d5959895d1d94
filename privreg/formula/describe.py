"""Options of a model, read: as a public design, as the whole description of a model, as a source of rows.

``allow_leak=`` is the user's explicit exception: the one place where a declaration is taken from raw rows. Public rows
of ``covariates=`` stand for the people's covariates.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg import errors
from privreg.base.arrays import Array
from privreg.data.columns import complete_rows, learn_levels, learn_moments, prepare
from privreg.data.followed import Followed
from privreg.data.participants import Participants
from privreg.data.sources import open as sources
from privreg.data.sources.open import SILO, Silos, Source
from privreg.families import resolve_family
from privreg.families.family import Family, with_counts
from privreg.families.hazards import AT_RISK, HAZARDS
from privreg.formula.batches import read_arrays
from privreg.formula.design import Design, array_design, formula_design
from privreg.formula.language.parse import ParsedFormula, collect_rowwise, private_columns, read_formula, refuse_other
from privreg.formula.language.rowwise import Rowwise
from privreg.formula.language.spelling import as_labelled, label_of, refuse_arrays, schema_labelled
from privreg.formula.persons import refuse_beside, without_effect, without_survival
from privreg.formula.spec import ModelSpec
from privreg.options.table import check, find
from privreg.options.unknown import NO_COLUMN
from privreg.privacy.accounts import Accounts, accounts_of
from privreg.privacy.ledger import UNSET, Budget, refuse_fitted, refuse_shared
from privreg.schema.declarations import Schema, combined

_COLUMNS: Final = ("mu", "epsilon", "offset", "exposure", "id", "weights", "cluster")  # Options that may name one


@dataclass(frozen=True, eq=False, repr=False)
class ModelOptions:
    """Options of a model as its front door was given them, by keyword; see the table of options."""

    family: Any = "huber"
    mu: Any = UNSET
    epsilon: Any = None
    delta: Any = None
    rho: Any = None
    bounds: Any = None
    levels: Any = None
    moments: Any = None
    schema: Any = None  # For formulas, as options below that name a column
    scaling: Any = "public"
    mechanism: Any = "auto"
    private: Any = "record"
    score_weights: Any = None
    offset: Any = None
    exposure: Any = None
    mu_max: Any = None
    epsilon_max: Any = None
    id: Any = None
    max_per_id: Any = 1
    k_max: Any = None
    per_person: Any = "sum"
    weights: Any = None
    cluster: Any = None
    missing: Any = "noise"
    rows: Any = None
    dataset: Any = None
    allow_leak: Any = ()
    exog_names: Any = None  # For arrays, as the next
    endog_name: Any = None
    trust: Any = "local"

    def changed(self) -> dict[str, Any]:
        """Options that are not left at their defaults, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not f.default}

    def declarations(self) -> dict[str, Any]:
        """Declarations beside a schema, by name."""
        return {"bounds": self.bounds, "levels": self.levels, "moments": self.moments}

    def learned(self) -> tuple[tuple[str, ...], bool]:
        """Kinds of declaration that ``allow_leak=`` takes off rows; True if ``scaling=`` learns scales from reports."""
        given = (self.allow_leak,) if isinstance(self.allow_leak, str) else self.allow_leak
        known = find("local.formula", "allow_leak").choices
        if not isinstance(given, Sequence) or len(given) > len(known):
            raise errors.OptionError(f"allow_leak={errors.shown(self.allow_leak)} must be a tuple from {known}.")
        leaks = tuple(errors.choose("allow_leak", kind, known) for kind in given)
        private = check("local.formula", "scaling", self.scaling) == "private"
        if private and "scale" in leaks:
            raise errors.OptionError(
                'scaling="private" learns scales from privatised reports and allow_leak="scale" takes them from the '
                "raw rows; keep one."
            )
        return leaks, private

    def reports(self) -> tuple[Any, Any, Any]:
        """Options of reports, as `ModelSpec.declare` takes them."""
        return self.score_weights, self.mechanism, self.private


def callers_scopes() -> list[Mapping[str, Any]]:
    """Scopes for the functions that a formula names, of the first frame outside; none if another language calls."""
    frame = errors.outside()[0]
    return [] if frame is None else [frame.f_locals, frame.f_globals]


def read_design(
    formula: str,
    data: Any,
    scopes: Sequence[Mapping[str, Any]],
    family: Family,
    asked: ModelOptions,
    *,
    table: Any = None,
    reports: bool = False,
    followed: Followed | None = None,
) -> Design:
    """The public design of a formula, from what was declared and what the data carry.

    `table` are data whose columns must be those of the model, as far as their names are known unread; None not to
    check. `reports` says whether noise falls on people's reports, so that messages may name what such models learn.
    """
    places = {"offset": asked.offset, "exposure": asked.exposure}
    named = sources.check_columns(table, ())
    beside = {kind: as_labelled(given, named) for kind, given in asked.declarations().items()}
    schema = combined(schema_labelled(asked.schema, named), **beside)
    refuse_arrays(**places)
    refuse_other(formula)
    formula = as_labelled(formula, [*schema.bounds, *schema.levels, *schema.moments] if named is None else named)
    leaks, learn = asked.learned()
    who = [name for name in (asked.id, asked.mu, asked.epsilon, asked.cluster, asked.weights) if isinstance(name, str)]
    try:
        schema = with_counts(schema, family, formula.partition("~")[0].strip())
        functions = collect_rowwise(formula, scopes)
        parsed = read_formula(formula, functions)
        columns = tuple(dict.fromkeys([*parsed.columns, *(name for name in places.values() if name is not None)]))
        columns = columns if followed is None else followed.read(columns)
        labels = sources.check_columns(table, (*columns, *who))
        if isinstance(table, Silos) and SILO in {*columns, *who}:  # its levels, as they are declared or in their order
            silos = schema.levels.get(SILO, tuple(table.parts))
            if set(silos) != set(table.parts) or SILO in schema.bounds:
                raise errors.SchemaError(
                    f"the levels of {SILO!r} are the silos of the data; declare these in another order, or none."
                )
            schema = combined(schema, None, {SILO: list(silos)}, None)
    except (errors.FormulaError, errors.PrivacyLeakError, errors.DataError):
        sources.refuse_bare(formula, table)
        raise
    # an option that says where scales or levels come from goes before what the data carry
    elsewhere = {"numbers": not learn and "scale" not in leaks, "factors": "levels" not in leaks}
    declared, schema = schema, sources.completed(schema, data, columns, **elsewhere)
    if followed is not None:
        sources.refuse_texts(schema, data, followed.event)
        schema = followed.declared(sources.with_truth_values(schema, data, columns))
        return formula_design(formula, schema, functions=functions, exposure=AT_RISK, kind="binary")
    left = formula.partition("~")[0].strip()
    needed = columns if family.kind != "binary" else [c for c in columns if c != left]
    schema = schema if learn or leaks else sources.with_truth_values(schema, data, needed)
    if family.kind == "binary" and left in columns and not leaks:
        sources.refuse_texts(schema, data, left)
    otherwise = learn or leaks or all(map(schema.declares, needed))
    if labels is not None and otherwise and not all(map(declared.declares, needed)):
        sources.check_declared(beside, [*columns, *labels])
    schema = complete(schema, data, parsed, places["offset"], leaks, family.kind) if leaks else schema
    schema = replace(schema, private=private_columns(parsed, schema, family.kind)) if learn else schema
    return formula_design(formula, schema, functions=functions, **places, kind=family.kind, reports=reports)


def formula_spec(
    formula: str, data: Any, scopes: Sequence[Mapping[str, Any]], asked: ModelOptions
) -> tuple[ModelSpec, Source | None]:
    """A model of people's reports by a formula, and its rows."""
    refuse_other(formula)
    if data is None and (asked.mu, asked.epsilon, asked.delta, asked.rho) == (UNSET, None, None, None):
        raise errors.BudgetError(
            "no data are given, nor a privacy budget: data come after the formula, then mu=1.0, say; only a model that "
            "start() feeds goes without data."
        )
    if asked.trust == "silos":
        data = Silos(data, asked.dataset)
        if asked.allow_leak:
            raise errors.UnsupportedArgumentError(
                "allow_leak= takes levels or scales off rows, which silos keep; declare them."
            )
    formula, followed = without_survival(formula)
    named = sources.check_columns(data, ())
    asked = replace(asked, **{option: label_of(getattr(asked, option), named) for option in _COLUMNS})
    budgets = {"mu": (asked.mu, asked.mu_max), "epsilon": (asked.epsilon, asked.epsilon_max)}
    spent = "epsilon" if isinstance(asked.epsilon, str) else "mu"
    (given, most), (other, (_, ceiling)) = budgets.pop(spent), budgets.popitem()
    Participants.declare(mu_max=ceiling, spent=other)  # or says that it is the ceiling of no column
    column = given if isinstance(given, str) else None
    effect = None
    if asked.trust != "local" or asked.k_max is not None:
        formula, effect = without_effect(formula)
        effect = None if effect is None else (effect[0], label_of(effect[1], named))
    who = asked.id, asked.max_per_id, asked.missing, asked.k_max, asked.per_person, asked.weights
    people = Participants.declare(column, most, *who, effect, asked.cluster, spent, asked.delta)
    largest = {spent: people.mu_max} if column else {}
    budget = Budget.declare(**{"mu": asked.mu, "epsilon": asked.epsilon, **largest}, delta=asked.delta, rho=asked.rho)
    family = resolve_family(asked.family, curator=asked.trust == "central") if followed is None else HAZARDS
    how = {"table": data, "reports": asked.trust == "local", "followed": followed}
    design = read_design(formula, data, scopes, family, replace(asked, id=people.id), **how)
    if followed is not None:
        refuse_beside(followed, people, asked, design, named)
        people = replace(people, followed=followed)
    people.check_columns(design.columns)
    silos = tuple(data.parts) if isinstance(data, Silos) else ()
    spec = ModelSpec.declare(design, family, budget, *asked.reports(), people, asked.trust, silos)
    if data is None or spec.silos:
        return spec, None if data is None else spec.open(data)
    return spec, spec.open(data).of(asked.dataset)


def array_spec(endog: Any, exog: Any, asked: ModelOptions) -> tuple[ModelSpec, Source]:
    """A model of people's reports by arrays, and its rows."""
    if asked.trust == "silos":
        raise errors.UnsupportedArgumentError(
            "trust='silos' is for formulas, with data by silo, as in {'north': people, 'south': others}."
        )
    for name, given in {"mu": asked.mu, "epsilon": asked.epsilon}.items():
        if isinstance(given, str):
            raise errors.UnsupportedArgumentError(f"{name}= {NO_COLUMN}, or give a number, {name}=1.0.")
    budget = Budget.declare(asked.mu, asked.epsilon, asked.delta, asked.rho)
    family = resolve_family(asked.family, curator=asked.trust == "central")
    schema = Schema.declare(**asked.declarations())
    held = read_arrays(endog, exog, asked.offset, asked.exog_names, asked.endog_name, asked.exposure)
    if beside := [name for name in schema.levels if name not in (*held.names, held.endog_name)]:
        said = f"arrays hold numbers, except for the response ({held.endog_name!r} here): code factors first"
        raise errors.SchemaError(f"levels[{beside[0]!r}]: levels= is for formulas; {said}.")
    schema = with_counts(schema, family, held.endog_name)
    people = Participants.declare(missing=asked.missing)
    (leaks, learn), numeric = asked.learned(), held.numeric(family.kind)
    if "levels" in leaks:
        raise errors.OptionError("allow_leak='levels' is for formulas; array columns have no levels.")
    if learn or leaks:
        sources.check_declared(asked.declarations(), (*held.names, held.endog_name, "offset", "exposure"))
    if "scale" in leaks:
        columns = dict(zip(held.names, held.exog.T, strict=True)) | {held.endog_name: held.endog}
        schema = _with_leaks(schema, columns, "scale", numeric)
    if learn:
        schema = replace(schema, private=tuple(n for n in numeric if not schema.is_number(n)))
    extra = {"offset": held.offset is not None, "exposure": held.exposure is not None}
    design = array_design(held.names, held.endog_name, schema, **extra, kind=family.kind)
    given = (endog, exog, asked.offset, asked.exposure)
    source = sources.open_arrays(held[2:], given)
    return ModelSpec.declare(design, family, budget, *asked.reports(), people, asked.trust), source.of(asked.dataset)


def design_from_json(doc: Mapping[str, Any], functions: Mapping[str, Rowwise] | None = None) -> Design:
    """Rebuild a design from its ``to_json()``; `functions` supplies the marked functions of a formula."""
    if doc.get("kind") not in ("formula", "arrays"):
        raise errors.SavedFileError(f"a saved design has kind 'formula' or 'arrays', got {doc.get('kind')!r}.")
    schema = Schema.from_json(doc["schema"])
    more: dict[str, Any] = {"offset": doc["offset"], "exposure": doc["exposure"], "kind": str(doc["response"])}
    if doc["kind"] == "arrays":
        more |= {"offset": bool(doc["offset"]), "exposure": bool(doc["exposure"])}
        return array_design(doc["exog_names"], doc["endog_name"], schema, **more)
    given = dict(functions or {})
    if lacking := [name for name in doc["functions"] if not isinstance(given.get(name), Rowwise)]:
        raise errors.SavedFileError(
            f"the formula {doc['formula']!r} calls {', '.join(lacking)}, which is not saved; load with "
            f"functions={{{lacking[0]!r}: pr.rowwise({lacking[0]})}}."
        )
    design = formula_design(doc["formula"], schema, functions=given, **more)
    if list(design.names) != list(doc["names"]):
        raise errors.SavedFileError(
            f"the saved columns {doc['names']!r} are not the formula's, {list(design.names)!r}; "
            "the file is damaged or comes from another version."
        )
    return design


def _with_leaks(schema: Schema, data: Any, kind: str, columns: Sequence[str]) -> Schema:
    """Add "levels", or mean and sd ("scale"), of the undeclared `columns`, taken from the raw data, with a warning."""
    if not (missing := [c for c in columns if not schema.is_number(c)]):
        return schema
    what = "levels" if kind == "levels" else "mean and sd"
    errors.warn(
        f"{what} of {', '.join(missing)} taken from the raw data: this step is not private, and the summary says so. "
        "Declare them to mend it.",
        errors.PrivacyLeakWarning,
    )
    bounds, levels, moments = schema.as_given()
    if kind == "levels":
        levels |= {c: learn_levels(data, c) for c in missing}
    else:
        moments |= {c: learn_moments(data, c) for c in missing}
    names = (*schema.leaked_columns, *missing)
    full = Schema.declare(bounds, levels, moments)
    return replace(full, leaked=(*schema.leaked, kind), leaked_columns=names, carried=schema.carried)


def complete(
    schema: Schema, data: Any, parsed: ParsedFormula, offset: str | None, leaks: tuple[str, ...], kind: str
) -> Schema:
    """Complete the schema from raw data that can be read twice: the user's explicit opt-out."""
    wanted = tuple(dict.fromkeys([*parsed.columns, *([offset] if offset else [])]))
    held = data
    if not isinstance(data, pd.DataFrame | Mapping):
        source = None if data is None else sources.open_table(data, wanted, schema)
        if source is None or not source.repeatable or source.kind == "iterable of DataFrames":
            raise errors.PrivacyLeakError(
                "allow_leak needs the rows in memory, as a DataFrame, a table or a file; or declare levels= and "
                "bounds=."
            )
        if not (batches := [pd.DataFrame(b) for b in source.batches(0)]):
            raise errors.DataError(f"{source.kind}: there are no rows.")
        held = pd.concat(batches, ignore_index=True)
    undeclared = [c for c in wanted if c in held and not schema.declares(c)]
    coded = {*parsed.coded, *(parsed.response_columns if kind in {"levels", "ordinal"} else ())}
    types = {c: held[c] if hasattr(held[c], "dtype") else np.asarray(held[c]) for c in undeclared}
    numbers = {c for c, v in types.items() if pd.api.types.is_numeric_dtype(v) or pd.api.types.is_bool_dtype(v)}
    factors = [c for c in undeclared if c in coded or c not in numbers]
    schema = _with_leaks(schema, held, "levels", factors) if "levels" in leaks else schema
    if "scale" in leaks:
        numeric = [c for c in undeclared if c not in factors and (kind == "number" or c not in parsed.response_columns)]
        schema = _with_leaks(schema, held, "scale", numeric)
    return schema


MOST: Final = 2048
"""Public rows that are used, at most: as many as the points of a reference model that nobody gave rows for."""

LEAST: Final = 20
"""Public rows for each column of the design, at least: with fewer their sampling error would be the model's."""

FLAT: Final = 1e-9
"""Part of its size by which a column varies, and of their squares by which columns are distinguished, at least."""


@dataclass(frozen=True, eq=False, repr=False)
class PublicRows:
    """Covariates of public rows, from which a fit computes curvature; made by `public_rows`."""

    inside: Array  # Rows of the design, internal units; shape (m, p)
    given: int  # Rows that they were taken from
    accounts: Accounts = field(default_factory=Accounts)  # Their identity in the ledger, in this process

    def __repr__(self) -> str:
        return f"<{self.words}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return PublicRows, (self.inside, self.given)

    @property
    def words(self) -> str:
        """Numbers of rows, in words."""
        used = "" if len(self.inside) == self.given else f"; {len(self.inside):,} of them are used"
        return f"public rows ({self.given:,}){used}"

    @property
    def described(self) -> dict[str, Any]:
        """Numbers of rows and a hash, without their values: plain JSON."""
        return {
            "rows": self.given,
            "used": len(self.inside),
            "sha256": hashlib.sha256(self.inside.astype("<f8").tobytes()).hexdigest(),
        }

    @classmethod
    def restored(cls, described: Any, inside: Any, columns: int) -> "PublicRows | None":
        """Rows of a saved fit, from `described` and an array; a ValueError says that they don't fit each other."""
        if described is None:
            return None
        shaped = inside.dtype == np.float64 and inside.ndim == 2 and inside.shape[1] == columns
        if not shaped or not np.isfinite(inside).all():
            raise ValueError("public rows of another plan")
        out = cls(np.ascontiguousarray(inside), int(described["rows"]))
        if out.described != described:
            raise ValueError("other public rows")
        return out

    def refuse(self, rows: Any) -> None:
        """Refuse to fit rows, as the ledger knows them, that these are a part of."""
        refuse_shared(self.accounts, rows, "covariates=")


def public_rows(spec: ModelSpec, covariates: Any, fitted: Any = None) -> PublicRows | None:
    """Covariates of a DataFrame of public rows, whose other columns are not read; None if there are none.

    `fitted` is what the ledger knows the rows by that are to be fitted.
    Raises OptionError if it is no DataFrame, or the model has no use for it. Raises DataError or SchemaError if it
    lacks a column, or has too few rows, or some that can't be used. No message quotes a value. Raises NotPrivateError
    if the rows were fitted privately in this process, or are those to be fitted.
    """
    if covariates is None:
        return None
    design = spec.design
    names, least = design.covariates, LEAST * len(design.names)
    if spec.private == "response" or not names:
        public = "a model with private='response', whose covariates are public and known"
        of = public if names else f"{spec.formula!r}, which has none"
        raise errors.OptionError(f"covariates= has nothing to tell of {of}; leave it out.")
    frame = check_covariates(covariates, names, "covariates=")
    accounts = accounts_of(covariates)
    if fitted is not None:
        refuse_shared(accounts, fitted, "covariates=")
    if len(frame) < least:
        raise errors.DataError(
            f"covariates has {len(frame):,} rows, and a design of {len(design.names)} columns needs {least:,} or more; "
            "give more public rows, or leave covariates= out."
        )
    for name, values in prepare(frame, names, design.schema, (), gaps=True).items():
        if complete_rows([values]) is not None:
            raise errors.DataError(
                f"covariates has rows whose {name!r} is missing, no number or not among the declared levels; leave "
                "them out, as by covariates.dropna()."
            )
    used = min(len(frame), MOST)
    some = frame.iloc[np.arange(used) * len(frame) // used]
    x = np.array(design.encode_exog(some, clamp=True, gaps=True), dtype=np.float64, order="C")
    if not np.isfinite(x).all():
        raise errors.DataError("covariates has rows for which a term of the formula is not finite; leave them out.")
    constant = spec.units.constant
    part = x - x.mean(axis=0) if constant.any() else np.array(x)
    size = np.sqrt(np.mean(part**2, axis=0))
    flat = size <= FLAT * np.sqrt(np.mean(x**2, axis=0))
    if np.count_nonzero(constant) == 1:
        flat &= constant == 0.0
    fix = "in all rows that are used, and those of people don't; give rows of people like those to be asked."
    if flat.any():
        raise errors.DataError(f"covariates has the same {design.names[int(np.argmax(flat))]!r} {fix}")
    held = part[:, size > 0.0] / size[size > 0.0]
    lost = int(constant.any() and (size > 0.0).all())  # levels without a reference add up to the constant
    if np.sum(np.linalg.eigvalsh(held.T @ held / len(held)) > FLAT) < held.shape[1] - lost:
        raise errors.DataError(f"covariates has columns of the design that determine each other {fix}")
    spec.units.rows_inside(x)
    return PublicRows(x, len(frame), accounts.weak())


def check_covariates(covariates: Any, columns: Sequence[str], what: str, name: str = "covariates") -> pd.DataFrame:
    """Public rows to take covariates from, those columns alone; `what` would tell of them, were they people's.
    Raises NotPrivateError if they were fitted privately in this process.
    """
    if not isinstance(covariates, pd.DataFrame):
        raise errors.OptionError(f"{name} is of type {type(covariates).__name__}; give a DataFrame of public rows.")
    if lacking := [c for c in columns if c not in covariates]:
        raise errors.DataError(f"{name} has no column {lacking[0]!r}.")
    refuse_fitted(covariates, what)
    if len(covariates) < 2:
        raise errors.DataError(f"{name} has fewer than two rows.")
    return covariates[list(columns)]
