"""Results in a file, written and read."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privreg.base import archive
from privreg.collector.inference.methods import METHODS, Estimate, Steps
from privreg.collector.inference.pivots import Normal, Pivot, RandomScaling, StudentT
from privreg.collector.inference.resampling import Anytime, Bootstrap
from privreg.families.family import Family
from privreg.families.measures import Measure
from privreg.results.data import Equation, Later, ResultData, RoundHeld
from privreg.results.statement import PrivacyStatement


def parts(fit: ResultData) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Split a fit into a JSON document and named arrays."""
    arrays = {"params": fit.params, "last": fit.last, "trail_n": fit.trail_n, "trail_params": fit.trail_params}
    arrays |= {"trail_senders": fit.trail_senders, "trail_variances": fit.trail_variances}
    estimates = list[dict[str, Any]]()
    for i, e in enumerate(fit.estimates):
        arrays[f"cov_{i}"] = e.cov
        pivot: list[Any] = ["normal", 1]
        match e.pivot:
            case RandomScaling(lanes=lanes, steps=steps):
                pivot = ["random scaling", lanes, *([] if steps is None else [steps])]
            case StudentT(df=df):
                pivot = ["t", df]
            case Anytime(people=people):
                pivot = ["anytime", people]
            case Bootstrap(moves=moves, studentised=studentised):
                arrays[f"moves_{i}"] = moves
                pivot = ["bootstrap", 1 + studentised]
        estimates.append({"method": e.method, "pivot": pivot, "notes": list(e.notes)})
    if fit.spreads is not None:
        arrays["spreads"] = fit.spreads
    if fit.measures:
        arrays["measures"] = np.array([[m.estimate, m.std_error] for m in fit.measures])
    if fit.rounds:
        arrays["rounds"] = np.array([[r.number, r.records, r.reports, r.moved] for r in fit.rounds])
    if (along := fit.steps.value) is not None:
        arrays |= {f"steps_{name}": value for name, value in along._asdict().items()}
    equation: dict[str, Any] | None = None
    if (of := fit.equation) is not None:
        arrays |= {f"equation_{name}": getattr(of, name) for name in _ARRAYS}
        equation = {name: getattr(of, name) for name in ("weighing", "constant", "ratio")}
        equation |= {"shape": list(of.shape), "response": [of.y_centre, of.y_scale]}
        equation |= {"budgets": None if of.budgets is None else list(of.budgets)}
        equation |= {"people": None if of.people is None else dict(of.people)}
    document = {
        "design": fit.design.to_json(),
        "family": fit.family.to_json(),
        "title": fit.title,
        "estimates": estimates,
        "counts": [fit.nobs, fit.senders, fit.updates],
        "statement": fit.statement.to_json(),
        "baseline": list(fit.baseline),
        "measures": [[m.name, m.meaning] for m in fit.measures],
        "rounds": [r.role for r in fit.rounds],
        "within": fit.within,
        "cuts": list(fit.cuts),
        "equation": equation,
    }
    return document, arrays


def restored(document: Mapping[str, Any], arrays: Mapping[str, Any], design: Any, family: Family) -> ResultData:
    """Rebuild the fit that :func:`parts` was given.
    Raises ValueError if the arrays don't fit the design or each other.
    """
    statement = PrivacyStatement.from_json(document["statement"])
    estimates = tuple(
        Estimate(METHODS[name].name, arrays[f"cov_{i}"], pivot, tuple(n for n in statement.notes if n in e["notes"]))
        for i, e in enumerate(document["estimates"])
        for name in [e["method"].removesuffix("_full")]  # of a fit by version 0.1
        for pivot in [_pivot(e["pivot"], arrays.get(f"moves_{i}"))]
    )
    counts: dict[str, Any] = dict(zip(("nobs", "senders", "updates"), map(int, document["counts"]), strict=True))
    baseline = tuple(str(v) for v in document["baseline"])
    archive.expect(not baseline or baseline == tuple(map(str, design.endog_levels or ())))
    names = tuple(f"{level}:{term}" for level in baseline[1:] for term in design.names) or tuple(design.names)
    p, m = len(names), len(arrays["trail_n"])
    wanted: dict[str, tuple[int, ...]] = {"params": (p,), "last": (p,), "trail_n": (m,), "trail_senders": (m,)}
    wanted |= {"trail_params": (m, p), "trail_variances": (m, p)}
    archive.expect(*(arrays[k].shape == shape and arrays[k].dtype.kind in "fi" for k, shape in wanted.items()))
    archive.expect(*(e.cov.shape in {(p, p), (p,)} and e.cov.dtype.kind == "f" for e in estimates))
    moves = [e.pivot.moves for e in estimates if isinstance(e.pivot, Bootstrap)]
    archive.expect(*(v.ndim == 2 and len(v) > 1 and v.shape[1] == p and v.dtype.kind == "f" for v in moves))
    archive.expect(*(not note.rows or note.rows[-1] < p for note in statement.doubts))
    archive.expect(*(len(way) == p for note in statement.doubts for way in note.ways))
    spreads = arrays.get("spreads")
    archive.expect(spreads is None or (spreads.shape == (len(design.names),) and spreads.dtype.kind == "f"))
    steps: Steps | None = None
    if "steps_ends" in arrays:  # estimates along the stream, if they were kept
        steps = Steps(*(arrays[f"steps_{name}"] for name in Steps._fields))
        n, k = len(steps.ends), steps.unknown.shape[1] if steps.unknown.ndim == 3 else 0
        shapes = (n,), (n,), (n,), (n, p), (n,), (p, p), (len(steps.unknown), k, p)
        archive.expect(*(v.shape == shape and v.dtype.kind in "fi" for v, shape in zip(steps, shapes, strict=True)))
        archive.expect(steps.group.dtype.kind == "i", bool((steps.weight > 0.0).all()), bool((steps.group < k).all()))
    held = dict[str, list[tuple[Any, Any]]]()  # entries about the lines of an array, each with its numbers
    for name, width in (("measures", 2), ("rounds", 4)):
        numbers = arrays[name] if document[name] else np.empty((0, width))
        archive.expect(numbers.shape == (len(document[name]), width))
        held[name] = list(zip(document[name], numbers.tolist(), strict=True))
    return ResultData(
        design=design,
        family=family,
        title=tuple((str(a), str(b)) for a, b in document["title"]),
        names=names,
        baseline=baseline,
        measures=tuple(Measure(str(name), v, error, str(means)) for (name, means), (v, error) in held["measures"]),
        estimates=estimates,
        statement=statement,
        spreads=spreads,
        rounds=tuple(RoundHeld(int(k), str(role), int(n), *line) for role, (k, n, *line) in held["rounds"]),
        equation=None if document["equation"] is None else _equation(document["equation"], arrays, p),
        steps=Later(lambda: steps),
        within=document.get("within") is True,
        cuts=tuple(float(v) for v in document.get("cuts", ())),
        **counts,
        **{name: arrays[name] for name in wanted},
    )


def _pivot(saved: Any, moves: Any) -> Pivot:
    kind, number, *steps = saved
    archive.expect(*(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in (number, *steps)))
    archive.expect(not steps or (kind == "random scaling" and len(steps) == 1))
    if kind == "bootstrap":
        archive.expect(moves is not None and number <= 2)
        return Bootstrap(moves, studentised=number == 2)
    if kind == "random scaling":
        return RandomScaling(number, *steps)
    kinds: dict[str, Pivot] = {"normal": Normal(), "t": StudentT(number)}
    return (kinds | {"anytime": Anytime(number)})[kind]


_ARRAYS = ("rows", "order", "weights", "c", "offsets", "bend", "theta", "caps", "shares")
_OLDER = "equation_corners"  # The name of c in files of earlier versions
_NEWER = {"caps": (0, 0, 0), "shares": (0,)}  # Arrays that files of earlier versions lack, and their shapes there


def _equation(document: Mapping[str, Any], arrays: Mapping[str, Any], size: int) -> Equation:
    """Rebuild what was saved of a fit with `size` coefficients.
    Raises ValueError if the arrays don't fit each other.
    """
    given = {f"equation_{n}": np.zeros(shape) for n, shape in _NEWER.items()} | dict(arrays)
    given |= {"equation_c": given[_OLDER]} if _OLDER in given else {}
    held = {n: np.array(given[f"equation_{n}"]) for n in _ARRAYS}
    d, m = len(held["order"]), len(held["weights"])
    archive.expect(held["rows"].shape in {(d, d), (2, d)}, held["offsets"].shape == (m, size))
    archive.expect(held["c"].shape == (m,), held["theta"].shape == held["bend"].shape == (size,), size % max(d, 1) == 0)
    archive.expect(sorted(held["order"].tolist()) == list(range(d)))
    archive.expect(held["caps"].shape in {(0, 0, 0), (len(held["shares"]), d, d)})
    family, a, b = document["shape"]
    budgets, ratio, (y_centre, y_scale) = document["budgets"], document.get("ratio"), map(float, document["response"])
    return Equation(
        shape=(int(family), float(a), float(b)),
        weighing=str(document["weighing"]),
        constant=bool(document["constant"]),
        y_centre=y_centre,
        y_scale=y_scale,
        ratio=None if ratio is None else float(ratio),
        budgets=None if budgets is None else (str(budgets[0]), float(budgets[1])),
        people=document.get("people"),
        **held,
    )
