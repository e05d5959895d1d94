"""Data dictionaries of survey programs: bounds and levels from REDCap's CSV and from an XLSForm of ODK or KoBo.

A dictionary is written before anybody answers, so what it says is public. No record is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pandas as pd

from privreg.base.optional import need
from privreg.errors import SchemaError, shown

Declared = tuple[dict[str, tuple[Any, Any]], dict[str, list[Any]]]
"""Bounds and levels by column."""

_REDCAP: Final = [
    "Variable / Field Name", "Field Type", "Choices, Calculations, OR Slider Labels",
    "Text Validation Type OR Show Slider Number", "Text Validation Min", "Text Validation Max",
]  # fmt: skip
_LIMIT: Final = re.compile(r"\.\s*(>=?|<=?)\s*(?:date\(\s*)?['\"]?(-?\d[\d.-]*)")
"""A comparison of an answer with a number or a date, in a constraint of an XLSForm."""


def redcap(path: str | Path) -> Declared:
    """Bounds and levels of a REDCap data dictionary, of columns as a raw export names them."""
    frame = _opened(path, None, _REDCAP)
    bounds, levels = dict[str, tuple[Any, Any]](), dict[str, list[Any]]()
    for row in frame[_REDCAP].itertuples(index=False, name=None):
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
    """Bounds and levels of an XLSForm: choices of `select_one`, and ranges that constraints give."""
    need("openpyxl", "excel", "an .xlsx file")
    survey, choices = _opened(path, "survey", ["type", "name"]), _opened(path, "choices", ["name"])
    lists = choices.groupby("list_name" if "list_name" in choices else "list name", sort=False)["name"].agg(list)
    bounds, levels = dict[str, tuple[Any, Any]](), dict[str, list[Any]]()
    for row in survey.to_dict("records"):
        name, (kind, _, of) = row["name"].strip(), row["type"].strip().partition(" ")
        codes = lists.get(of.split(" ")[0], []) if of else []
        if kind == "select_one" and codes:
            levels[name] = _codes(codes)
        elif kind == "select_multiple":
            bounds |= {f"{name}/{code}": (0, 1) for code in codes}
        elif kind == "range":
            given = dict(part.split("=", 1) for part in row.get("parameters", "").split() if "=" in part)
            bounds[name] = (_number(given.get("start", "0")), _number(given.get("end", "10")))
        elif kind in {"integer", "decimal", "date"}:  # limits joined by "and", without alternatives or other questions
            constraint, read = row.get("constraint", ""), str if kind == "date" else _number
            found = {sign[0]: value for sign, value in _LIMIT.findall(constraint)}
            if set(found) == {">", "<"} and not re.search(r"\bor\b|\bnot\b|\$\{", constraint):
                bounds[name] = (read(found[">"]), read(found["<"]))
    return bounds, levels


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SchemaError(f"{shown(text)} stands where a range needs a number.") from None


def _codes(codes: list[str]) -> list[Any]:
    """Codes as an export has them: whole numbers if all are."""
    return [int(c) for c in codes] if all(re.fullmatch(r"-?(0|[1-9]\d*)", c) for c in codes) else codes


def _opened(path: str | Path, sheet: str | None, columns: list[str]) -> pd.DataFrame:
    """Cells of a CSV file, or of a sheet, as texts; raises SchemaError if it can't be read or lacks a column."""
    read: Any = pd.read_csv if sheet is None else pd.read_excel
    how = {"encoding": "utf-8-sig"} if sheet is None else {"sheet_name": sheet}
    try:
        frame: pd.DataFrame = read(path, dtype=str, keep_default_na=False, **how)
    except (OSError, ValueError, KeyError) as e:
        why = "there is no such file" if isinstance(e, FileNotFoundError) else "it is no such dictionary"
        raise SchemaError(f"{Path(path).name} can't be read: {why}.") from None
    absent = [name for name in columns if name not in frame]
    if absent or (sheet == "choices" and not {"list_name", "list name"} & set(frame)):
        lacks = absent[0] if absent else "list_name"
        raise SchemaError(f"{Path(path).name} is no data dictionary: {sheet or 'it'} has no column {lacks!r}.")
    return frame
