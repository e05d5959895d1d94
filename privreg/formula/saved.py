"""Designs as they are saved: made again from what was said of them, through the same checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privreg.errors import SavedFileError
from privreg.formula.arrays import array_design
from privreg.formula.design import Design, formula_design
from privreg.formula.language.rowwise import Rowwise
from privreg.schema.declarations import Schema


def design_from_json(doc: Mapping[str, Any], functions: Mapping[str, Rowwise] | None = None) -> Design:
    """Rebuild a design from its ``to_json()``; `functions` supplies the marked functions of a formula."""
    kind = doc.get("kind")
    if kind not in ("formula", "arrays"):
        raise SavedFileError(f"a saved design has kind 'formula' or 'arrays', got {kind!r}.")
    schema = Schema.from_json(doc["schema"])
    if kind == "arrays":
        more: dict[str, Any] = {"offset": bool(doc["offset"]), "exposure": bool(doc["exposure"])}
        return array_design(doc["exog_names"], doc["endog_name"], schema, **more, kind=str(doc["response"]))
    given = dict(functions or {})
    lacking = [name for name in doc["functions"] if not isinstance(given.get(name), Rowwise)]
    if lacking:
        raise SavedFileError(
            f"the formula {doc['formula']!r} calls {', '.join(lacking)}, which is not saved; load with "
            f"functions={{{lacking[0]!r}: pr.rowwise({lacking[0]})}}."
        )
    more = {"offset": doc["offset"], "exposure": doc["exposure"], "kind": doc["response"]}
    design = formula_design(doc["formula"], schema, functions=given, **more)
    if list(design.names) != list(doc["names"]):
        raise SavedFileError(
            f"the saved columns {doc['names']!r} are not the formula's, {list(design.names)!r}; "
            "the file is damaged or comes from another version."
        )
    return design
