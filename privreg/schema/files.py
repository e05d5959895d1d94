"""Public declarations in a small YAML or JSON file, read with every key checked, or a dictionary of REDCap or ODK.

Reading executes nothing: YAML comes through the safe loader, and what isn't a declaration is refused.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

from privreg.base.optional import need
from privreg.errors import SchemaError, quietly, shown

PARTS: Final = ("bounds", "levels", "moments", "correlations")
_YAML: Final = (".yaml", ".yml")
_LARGEST: Final = 1 << 20  # Bytes of a file of declarations; anything longer is something else, such as the data
_STRING: Final = "tag:yaml.org,2002:str"
_TYPED: Final = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool"))
_PLAIN_LEVEL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+][0-9]+)?|true|false|True|False")
"""Unquoted levels that are what they look like. YAML takes no for false, 010 for 8 and 12:30 for 750."""
_PLAIN_NUMBER: Final = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.(?i:inf|nan)")
"""Numbers that are what they look like: YAML 1.1 takes 065 for 53, 1:30 for 90 and 0x10 for 16."""
_LOOKS_TYPED: Final = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?")


# --- reading ---------------------------------------------------------------------------------------------


def document(path: str | Path) -> Any:
    """Content of a YAML or JSON file in the form NFC: no key twice, and nothing that YAML takes for something else."""
    file = checked_path(path)
    unreadable = SchemaError(f"can't read the schema {str(file)!r}; give a text file in UTF-8.")
    if not quietly(file.is_file, unreadable):
        raise SchemaError(f"there is no schema {str(file)!r}.")
    if quietly(file.stat, unreadable).st_size > _LARGEST:
        raise SchemaError(f"{file.name} is larger than any schema (1 MB); is it the data?")
    text = normalize("NFC", quietly(lambda: file.read_text("utf-8-sig"), unreadable))

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise SchemaError(f"the key {shown(twice[0])} is given twice; keep one.")
        return dict(pairs)

    if file.suffix.lower() == ".json":
        return quietly(lambda: json.loads(text, object_pairs_hook=once), SchemaError("not readable as JSON; mend it."))
    yaml = need("yaml", "yaml", "a schema in YAML")
    try:
        if (tree := yaml.compose(text, Loader=yaml.SafeLoader)) is None:
            return {}
        _check_mapping(yaml, tree, "the file", 1)
        waiting, seen = [tree], set()
        while waiting:  # refuse numbers, wherever they are, that YAML reads otherwise than in decimal
            node = waiting.pop()
            if id(node) in seen:  # of an alias
                continue
            seen.add(id(node))
            if not isinstance(node, yaml.ScalarNode):
                waiting += [one for part in node.value for one in (part if isinstance(part, tuple) else (part,))]
            elif node.tag in _TYPED[:2] and not _PLAIN_NUMBER.fullmatch(node.value):
                raise SchemaError(
                    f"line {node.start_mark.line + 1}: YAML takes {node.value} for another number than it looks like; "
                    "write it in decimal digits, without leading zeros, colons or underscores, or quote it if it is a "
                    "text."
                )
        return yaml.safe_load(text)
    except SchemaError:
        raise
    except Exception as e:
        mark = getattr(e, "problem_mark", None)
    where = "" if mark is None else f" at line {mark.line + 1}"
    raise SchemaError(f"not readable as YAML{where}; mend it, or write JSON. Quote texts with a mark such as ? or :.")


def checked_path(path: object) -> Path:
    """The path of a schema's file, by its suffix."""
    if not isinstance(path, str | Path):
        raise SchemaError(
            f"a schema is a Schema or the path of a file, got {type(path).__name__}; declarations in Python are "
            "bounds=, levels= and moments=."
        )
    if Path(path).suffix.lower() not in (*_YAML, ".json"):
        raise SchemaError(f"{Path(path).name!r} is no schema by its suffix; name it .yaml, .yml or .json.")
    return Path(path)


def _check_mapping(yaml: Any, node: Any, what: str, depth: int) -> None:
    """Refuse what YAML would quietly read as something else: keys given twice, and words that become booleans."""
    if not isinstance(node, yaml.MappingNode):
        return  # refused by what reads the values
    seen = set()
    for key, value in node.value:
        line = f"line {key.start_mark.line + 1}"
        if key.tag != _STRING:
            raise SchemaError(f'{line}: a key of {what} is read as no string; quote it, as in "no": [0, 1].')
        if key.value in seen:
            raise SchemaError(f"{line}: the key {shown(key.value)} of {what} is given twice; keep one.")
        seen.add(key.value)
        if depth == 1:
            _check_mapping(yaml, value, key.value, 2)
        elif what == "levels" and isinstance(value, yaml.SequenceNode):
            for level in value.value:
                _check_level(yaml, f"levels[{key.value!r}]", level)
        elif what == "choices" and isinstance(value, yaml.MappingNode):
            codes = [code for code, _ in value.value]
            for code in codes:
                _check_level(yaml, f"choices[{key.value!r}]", code)
            if len({str(code.value) for code in codes}) < len(codes):
                raise SchemaError(f"{line}: choices[{key.value!r}] has a level twice; keep one.")


def _check_level(yaml: Any, name: str, level: Any) -> None:
    if not isinstance(level, yaml.ScalarNode) or level.style is not None:
        return
    plain = level.tag in _TYPED and _PLAIN_LEVEL.fullmatch(level.value)
    if plain or (level.tag == _STRING and not _LOOKS_TYPED.fullmatch(level.value)):
        return
    raise SchemaError(
        f"line {level.start_mark.line + 1}: {name} has the unquoted level {shown(level.value)}, which YAML "
        f'takes for something else than this text; quote it, "{level.value}", or write true, false, or a plain number.'
    )


def pairs(given: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """Yield correlations, written as a list of [column, column, correlation]."""
    if given is None:
        return
    wrong = SchemaError("correlations must be a list of [column, column, correlation], such as [x1, x2, 0.9].")
    if not isinstance(given, list):
        raise wrong
    seen = set()
    for entry in given:
        if not isinstance(entry, list) or len(entry) != 3 or not all(isinstance(c, str) for c in entry[:2]):
            raise wrong
        a, b, rho = entry
        if frozenset((a, b)) in seen:
            raise SchemaError(f"correlations has {a!r} and {b!r} twice; keep one.")
        seen.add(frozenset((a, b)))
        yield (a, b), rho


def numbers_of(value: Any) -> Any:
    """Pairs whose numbers may be texts: JSON knows no infinity, and YAML takes 1e5 for a text."""
    return [_number(v) for v in value] if isinstance(value, list) else value


_ODD: Final = re.compile(r"\s*[-+]?0[0-9]|.*_")  # Texts that Python would read as numbers, and others otherwise


def _number(value: Any) -> Any:
    try:
        return float(value) if isinstance(value, str) and not _ODD.match(value) else value
    except ValueError:
        return value


# --- writing ---------------------------------------------------------------------------------------------


def text_of(doc: dict[str, Any], *, yaml: bool = True) -> str:
    """Declarations, as plain values, as the text of a file."""
    doc = {part: doc[part] for part in PARTS if doc[part]}
    if not yaml:
        return json.dumps(doc, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def scalar(value: Any, part: str) -> str:
        if isinstance(value, str):
            # a bound that is a text is infinite, or a date
            return f"{value[:-3]}.inf" if part == "bounds" and value.endswith("inf") else quoted(value)
        if isinstance(value, float) and "e" in (text := repr(value)) and "." not in text:
            return text.replace("e", ".0e")  # without a point YAML takes it for a text
        return json.dumps(value)

    out = ""
    for part, declared in doc.items():
        out += f"{part}:\n"
        pairs = declared.items() if isinstance(declared, dict) else ((None, entry) for entry in declared)
        for name, values in pairs:
            key = "-" if name is None else f"{quoted(name)}:"
            out += f"  {key} [{', '.join(scalar(v, part) for v in values)}]\n"
    return out


def quoted(text: str) -> str:
    """A text in quotes, so that nobody's parser takes it for a number or a boolean, as YAML has it."""
    shown = (f"\\{c}" if c in '"\\' else c if c.isprintable() else f"\\U{ord(c):08x}" for c in text)
    return f'"{"".join(shown)}"'


# --- data dictionaries of survey programs: what they say is public, as they are written before anybody answers ----

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
            bounds[name] = (_limit(low or "0"), _limit(high or "100"))
        elif kind == "text" and low and high and not valid.startswith(("datetime", "time")):
            bounds[name] = (low, high) if valid.startswith("date") else (_limit(low), _limit(high))
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
            bounds[name] = (_limit(given.get("start", "0")), _limit(given.get("end", "10")))
        elif kind in {"integer", "decimal", "date"}:  # limits joined by "and", without alternatives or other questions
            constraint, read = row.get("constraint", ""), str if kind == "date" else _limit
            found = {sign[0]: value for sign, value in _LIMIT.findall(constraint)}
            if set(found) == {">", "<"} and not re.search(r"\bor\b|\bnot\b|\$\{", constraint):
                bounds[name] = (read(found[">"]), read(found["<"]))
    return bounds, levels


def _limit(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SchemaError(f"{shown(text)} stands where a range needs a number.") from None


def _codes(codes: list[str]) -> list[Any]:
    """Codes as an export has them: whole numbers if all are."""
    return [int(c) for c in codes] if all(re.fullmatch(r"-?(0|[1-9]\d*)", c) for c in codes) else codes


def _opened(path: str | Path, sheet: str | None, columns: list[str]) -> Any:
    """Cells of a CSV file, or of a sheet, as texts; raises SchemaError if it can't be read or lacks a column."""
    import pandas as pd

    read: Any = pd.read_csv if sheet is None else pd.read_excel
    how = {"encoding": "utf-8-sig"} if sheet is None else {"sheet_name": sheet}
    try:
        frame = read(path, dtype=str, keep_default_na=False, **how)
    except (OSError, ValueError, KeyError) as e:
        why = "there is no such file" if isinstance(e, FileNotFoundError) else "it is no such dictionary"
        raise SchemaError(f"{Path(path).name} can't be read: {why}.") from None
    absent = [name for name in columns if name not in frame]
    if absent or (sheet == "choices" and not {"list_name", "list name"} & set(frame)):
        lacks = absent[0] if absent else "list_name"
        raise SchemaError(f"{Path(path).name} is no data dictionary: {sheet or 'it'} has no column {lacks!r}.")
    return frame
