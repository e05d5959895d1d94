"""Data dictionaries of survey programs: bounds and levels from REDCap's CSV and from an XLSForm of ODK or KoBo.

A dictionary is written before anybody answers, so what it says is public. No record is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from privreg.base.optional import need
from privreg.errors import SchemaError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

Declared = tuple[dict[str, tuple[Any, Any]], dict[str, list[Any]]]
"""Bounds and levels by column."""

_REDCAP: Final = {
    "name": "Variable / Field Name",
    "type": "Field Type",
    "choices": "Choices, Calculations, OR Slider Labels",
    "valid": "Text Validation Type OR Show Slider Number",
    "low": "Text Validation Min",
    "high": "Text Validation Max",
}
_LIMIT: Final = re.compile(r"\.\s*(>=?|<=?)\s*(?:date\(\s*)?['\"]?(-?\d[\d.-]*)")
"""A comparison of an answer with a number or a date, in a constraint of an XLSForm."""


def redcap(path: str | Path) -> Declared:
    """Bounds and levels of a REDCap data dictionary (CSV), of columns as a raw export names them.

    Raises SchemaError if the file can't be read or has not a dictionary's headings.
    """
    frame = _opened(path, "csv", None)
    absent = [heading for heading in _REDCAP.values() if heading not in frame]
    if absent:
        raise SchemaError(f"{Path(path).name} is no data dictionary of REDCap: it has no column {absent[0]!r}.")
    bounds, levels = dict[str, tuple[Any, Any]](), dict[str, list[Any]]()
    for row in frame[list(_REDCAP.values())].itertuples(index=False, name=None):
        name, kind, choices, valid, low, high = (value.strip() for value in row)
        codes = [part.partition(",")[0].strip() for part in choices.split("|")] if choices else []
        if kind in {"yesno", "truefalse"}:
            bounds[name] = (0, 1)
        elif kind == "checkbox":
            bounds |= {f"{name}___{re.sub('[^0-9a-z]', '_', code.lower())}": (0, 1) for code in codes}
        elif kind in {"radio", "dropdown"} and codes:
            levels[name] = _codes(codes)
        elif kind == "slider":
            bounds[name] = (_number(low or "0"), _number(high or "100"))
        elif kind == "text" and low and high and not valid.startswith(("datetime", "time")):
            bounds[name] = (low, high) if valid.startswith("date") else (_number(low), _number(high))
    return bounds, levels


def xlsform(path: str | Path) -> Declared:
    """Bounds and levels of an XLSForm (.xlsx): choices of `select_one`, and ranges that constraints give.

    Raises SchemaError if the file can't be read or has no sheets `survey` and `choices`; MissingExtraError without
    openpyxl.
    """
    need("openpyxl", "excel", "an .xlsx file")
    survey, choices = (_opened(path, "excel", sheet) for sheet in ("survey", "choices"))
    lists = choices.groupby(_column(choices, "list_name", "list name"), sort=False)[_column(choices, "name")].agg(list)
    bounds, levels = dict[str, tuple[Any, Any]](), dict[str, list[Any]]()
    for row in survey.to_dict("records"):
        name, (kind, _, of) = str(row.get("name", "")).strip(), str(row["type"]).strip().partition(" ")
        codes = lists.get(of.split(" ")[0], []) if of else []
        if kind == "select_one" and codes:
            levels[name] = _codes([str(code) for code in codes])
        elif kind == "select_multiple":
            bounds |= {f"{name}/{code}": (0, 1) for code in codes}
        elif kind == "range":
            given = dict(part.split("=", 1) for part in str(row.get("parameters", "")).split() if "=" in part)
            bounds[name] = (_number(given.get("start", "0")), _number(given.get("end", "10")))
        elif kind in {"integer", "decimal", "date"} and (found := _between(str(row.get("constraint", "")), kind)):
            bounds[name] = found
    return bounds, levels


def _between(constraint: str, kind: str) -> tuple[Any, Any] | None:
    """Limits that a constraint joins by "and"; None if one is absent, or alternatives or other questions matter."""
    if re.search(r"\bor\b|\bnot\b|\$\{", constraint):
        return None
    found = {sign[0]: value for sign, value in _LIMIT.findall(constraint)}
    if set(found) != {">", "<"}:
        return None
    read: Callable[[str], Any] = str if kind == "date" else _number
    return read(found[">"]), read(found["<"])


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SchemaError(f"{shown(text)} stands where a range needs a number.") from None


def _codes(codes: list[str]) -> list[Any]:
    """Codes as an export has them: whole numbers if all are."""
    return [int(c) for c in codes] if all(re.fullmatch(r"-?(0|[1-9]\d*)", c) for c in codes) else codes


def _column(frame: pd.DataFrame, *names: str) -> str:
    found = next((name for name in names if name in frame), None)
    if found is None:
        raise SchemaError(f"the sheet 'choices' has no column {names[0]!r}.")
    return found


def _opened(path: str | Path, kind: str, sheet: str | None) -> pd.DataFrame:
    """Cells of the file as texts."""
    import pandas as pd

    try:
        if kind == "csv":
            return pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        frame: pd.DataFrame = pd.read_excel(path, sheet_name=sheet, dtype=str, keep_default_na=False)  # type: ignore
    except (OSError, ValueError, KeyError) as e:
        why = "there is no such file" if isinstance(e, FileNotFoundError) else "it is no such dictionary"
        raise SchemaError(f"{Path(path).name} can't be read: {why}.") from None
    if sheet == "survey" and "type" not in frame:
        raise SchemaError(f"{Path(path).name} is no XLSForm: its sheet 'survey' has no column 'type'.")
    return frame
