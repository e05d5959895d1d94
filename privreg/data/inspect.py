"""A schema against a file's names and types; no row, and no extreme in a Parquet file's footer, is looked at."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from privreg.data.columns import missing, reads_as_number
from privreg.data.sources.arrow import kind_of
from privreg.data.sources.csv import PLAIN, Csv, check_commas, header_of
from privreg.data.sources.files import arrow_schema, files_of
from privreg.errors import DataError
from privreg.schema.declarations import Schema
from privreg.schema.files import quoted


class Described(NamedTuple):
    """One file: its name, its columns in order, and their kinds; None where a header has no types."""

    name: str
    columns: Sequence[str]
    kinds: Mapping[str, str] | None


def described(path: str | Path, how: Csv = PLAIN) -> list[Described]:
    """Names and types of the columns of a file, or of each file of a folder; `how` says how a CSV file is written."""
    out = []
    for name, file in files_of(Path(path)).items():
        if (schema := arrow_schema(name, file)) is None:
            labels = header_of(file, how)
            check_commas(file, labels, {""})
            out.append(Described(name, labels, None))
        else:
            out.append(Described(name, schema.names, {field.name: kind_of(field.type) for field in schema}))
    return out


def mismatches(schema: Schema, file: Described, wanted: Iterable[str] | None = None) -> list[str]:
    """Contradictions, a line each, of the columns `wanted`; by default of all that are declared."""
    declared = dict.fromkeys([*schema.levels, *schema.numeric()])
    out = []
    for name in declared if wanted is None else wanted:
        if name not in file.columns:
            out.append(str(missing(name, file.columns, declared)))
        elif list(file.columns).count(name) > 1:
            out.append(f"there is more than one column named {name!r}; rename or drop one.")
        elif name not in declared:
            out.append(
                f"column {name!r} is not declared: add bounds, levels or moments, unless it is a 0/1 response or its "
                'scale is to be learned (scaling="private").'
            )
        elif file.kinds is not None and (problem := _wrong_kind(schema, name, file.kinds[name])):
            out.append(f"column {name!r} is {problem}")
    return out


def _wrong_kind(schema: Schema, name: str, kind: str) -> str | None:
    held, levels = kind if kind == "of another kind" else f"of type {kind}", schema.levels.get(name)
    number = kind in {"number", "boolean"}
    if kind == "empty":
        return None
    if levels is None:
        if number or (name in schema.dates and kind in {"date", "text"}):
            return None
        if kind == "date":
            return f"{held} and its bounds are numbers; give dates as bounds, such as [2020-01-01, 2020-12-31]."
        more = "convert it, or declare its levels" if kind == "text" else "convert it, or leave it out"
        return f"{held} and is declared a number; {more}."
    if kind != "text" and not number:
        return f"{held} and is declared a factor; convert it to text, or leave it out."
    if any(isinstance(level, str) == (kind == "text") for level in levels):
        return None
    if kind == "text":
        return f"{held} and its declared levels are not; quote them in the schema (1 is not '1')."
    return f"{held} and its declared levels are texts; write them without quotes ('1' is not 1)."


def template(path: str | Path, how: Csv = PLAIN) -> str:
    """A skeleton of a schema in YAML, from the names and types of a file's columns, or the names of a CSV file's.
    Raises DataError for a CSV file whose first line looks like a person's row.
    """
    file = described(path, how)[0]
    if file.kinds is None and any(not c.strip() or reads_as_number(c) for c in file.columns):
        raise DataError(f"{file.name}: its first line looks like a row; write names of columns above it.")
    out = f"# Public declarations about the columns of {file.name}: what everybody may know without having looked\n"
    out += "# at its rows. Fill in the columns a model uses and delete the others.\n"
    if file.kinds is None:
        out += "# A CSV file has no types: keep a number (or date) under bounds and a factor under levels.\n"
    numbers = {"number": "[lowest, highest]", "boolean": "[0, 1]", "date": "[2020-01-01, 2020-12-31], first and last"}
    factors = dict.fromkeys(("text", "empty"), '["reference", "another"]')
    for part, hints, unknown in (("bounds", numbers, "number"), ("levels", factors, "text")):
        held = {c: hints.get(unknown if file.kinds is None else file.kinds[c]) for c in file.columns}
        lines = "".join(f"  {quoted(c)}: []  # {hint}\n" for c, hint in held.items() if hint)
        out += f"{part}:\n{lines}" if lines else ""
    return out
