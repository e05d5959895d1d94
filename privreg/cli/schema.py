"""The verb ``privreg schema``: a file's columns against public declarations, without a look at its rows."""

from __future__ import annotations

import argparse
from pathlib import Path

from privreg.cli.values import csv_of
from privreg.errors import OptionError, choose


def run(a: argparse.Namespace) -> int:
    """Run the verb; 2 if a check finds something."""
    what = choose("what", a.what, ("check", "template"))
    if what == "check":
        return _check(a)
    if a.schema is not None or a.formula is not None:
        raise OptionError("template takes the data alone; name the file to write by --out SCHEMA.")
    return _template(a)


def _check(a: argparse.Namespace) -> int:
    if a.schema is None or a.out is not None:
        raise OptionError("check takes the data and the schema: privreg schema check DATA SCHEMA [--formula FORMULA].")

    from privreg.data.inspect import described, mismatches
    from privreg.formula.language.parse import read_formula
    from privreg.schema.declarations import Schema

    schema = Schema.from_file(a.schema)
    wanted = None
    if a.formula is not None:
        wanted = read_formula(a.formula, {}).columns
    files = described(a.path, *filter(None, [csv_of(a)]))
    found = [(file.name, line) for file in files for line in mismatches(schema, file, wanted)]
    count = f"{len(found)} mismatch{'' if len(found) == 1 else 'es'}"
    print(f"{a.path} against {a.schema}: {count if found else 'nothing found'}")
    for name, line in found:
        print(f"  {name}: {line}")
    only_names = all(file.kinds is None for file in files)
    looked = "names of columns (a CSV file has no types)" if only_names else "names and types of columns"
    print(f"Only {looked} were looked at, no row.", flush=True)
    return 2 if found else 0


def _template(a: argparse.Namespace) -> int:
    from privreg.base import archive
    from privreg.data.inspect import template

    text = template(a.path, *filter(None, [csv_of(a)]))
    if a.out is None:
        print(text, end="", flush=True)
        return 0
    if Path(a.out).suffix.lower() not in {".yaml", ".yml"}:
        raise OptionError(f"--out {a.out!r}: a skeleton is YAML; name it .yaml.")
    if Path(a.out).exists():
        raise OptionError(f"--out {a.out!r} exists, and may have been filled in; give another name.")
    archive.write_bytes(a.out, text.encode())
    print(f"Wrote {a.out!r}; fill in what is public, and delete the other columns.", flush=True)
    return 0
