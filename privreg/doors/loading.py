"""Saved results and streams, back from their files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privreg.base import archive
from privreg.data.participants import Participants
from privreg.doors.regression import PrivateOnlineRegression
from privreg.errors import PrivregError, SavedFileError
from privreg.families.family import FAMILIES, from_json
from privreg.fits.settings import FitOptions
from privreg.formula.describe import ModelOptions, PublicRows, design_from_json
from privreg.formula.language.rowwise import Rowwise
from privreg.formula.spec import ModelSpec
from privreg.means.results import fit as means
from privreg.means.results.results import MeansResults
from privreg.privacy.ledger import Budget
from privreg.results.data import Target
from privreg.results.results import PrivateResults
from privreg.results.saving import restored


def load(path: str | Path, *, functions: Mapping[str, Rowwise] | None = None, trust: str | Path | None = None) -> Any:
    """Load saved results, or a saved stream to go on with.

    Continue only streams you saved: whoever makes up a file chooses its noise. A stream's file is therefore sealed
    under a secret of who saved it, and loads where that secret is. Results hold no keys and load anywhere.

    A stream goes on exactly where it was saved. Its file's key is taken out on the way, so that the same noise is never
    used for other people; a second load draws fresh noise. A file that is missing, damaged, or was not saved by
    privreg, or a stream that was not saved by you, is a SavedFileError.

    Parameters
    ----------
    functions : mapping of str to Rowwise, optional
        The ``privreg.rowwise`` functions that the formula calls; code is never stored.
    trust : str or Path, optional
        To move a stream of yours from another machine: a copy of your secret there, the file that the environment
        variable ``PRIVREG_SECRET`` names, else ``~/.local/share/privreg/secret``.
    """
    return _load(path, functions, trust, streams=True)


def load_results(path: str | Path) -> Any:
    """Saved results; a stream is refused and left as it is, with its key."""
    return _load(path, None, None, streams=False)


def _load(path: str | Path, functions: Any, trust: str | Path | None, *, streams: bool) -> Any:
    designs = []

    def needs(document: dict[str, Any]) -> int:
        if document["kind"] == archive.STREAM and not streams:
            raise SavedFileError(
                f"{str(path)!r} is a stream to go on with; privreg.load(...).results() are its results so far."
            )
        if document["kind"] == archive.CHECKPOINT:
            again = f"give the fit's own call again, with checkpoint={str(path)!r}."
            raise SavedFileError(f"{str(path)!r} is the checkpoint of a fit; {again}")
        if document["kind"] == "means":
            return len(document["names"]) * (1 + len(document["groups"]))
        designs.append(design_from_json(upgraded(document)["design"], functions))
        return len(designs[0].names) * max(len(designs[0].endog_levels or ()), 1)

    try:
        with archive.alone(path):
            document, arrays = archive.read(path, needs, trust)
            return _rebuild(Path(path), document, arrays, *designs)
    except SavedFileError:
        raise
    except PrivregError as e:  # a formula or declaration that this version would refuse
        raise SavedFileError(f"{str(path)!r} can't be used: {e}") from None
    except Exception:
        raise SavedFileError(f"{str(path)!r} is damaged or was not saved by privreg.") from None


def _rebuild(path: Path, document: dict[str, Any], arrays: dict[str, Any], design: Any = None) -> Any:
    if document["kind"] == "means":
        return MeansResults(means.restored(document, arrays))
    document = upgraded(document)
    if document["kind"] == "central results":
        from privreg.published.descent.losses import restored as of_descent
        from privreg.published.descent.results import CentralResults

        return CentralResults(restored(document, arrays, design, of_descent(dict(document["family"]))))
    family = from_json(document["family"])
    if document["kind"] == "results":
        held = restored(document, arrays, design, family)
        if held.equation is not None and held.equation.people is not None:
            Participants.from_json(held.equation.people)  # which estimand() reads later
        return PrivateResults(held)
    options = dict(document["options"])
    model = PrivateOnlineRegression.__new__(PrivateOnlineRegression)
    rows, people = options.pop("rows"), Participants.from_json(document["people"])
    how = (*document["private"], people, document.get("trust", "local"))
    spec = ModelSpec.declare(design, family, Budget.restore(*document["budget"]), *how)
    model._build(spec, None, ModelOptions(rows=rows, dataset=document.get("dataset")))
    public = PublicRows.restored(document.get("covariates"), arrays.get("covariates"), len(design.names))
    like = Target.from_json(options.pop("like", None), len(design.names))
    stream = model._begin(
        FitOptions(**options, covariates=public, like=like), None, document["seed"], document.get("start")
    )
    stream._restore(path, document, arrays)
    return stream


def upgraded(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document of a regression by an earlier version, as this one writes it; statements read their own."""
    out = dict(document)
    design = {"exposure": None, **out["design"]}
    design.setdefault("response", "binary" if design.get("binary") else "number")  # 0/1 and numbers were all there was
    out["design"] = design | {"schema": {"private": [], "correlations": [], **design.get("schema", {})}}
    if isinstance(out["family"], list):
        name, c, scale = out["family"]
        out["family"] = (FAMILIES["huber"](c, scale) if name == "Huber" else FAMILIES[name.lower()]()).to_json()
    if out["kind"] == archive.STREAM:
        return out
    return {"baseline": [], "measures": [], "rounds": [], "equation": None, **out}
