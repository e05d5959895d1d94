"""Invitations for a mail merge: a list of people with a link for each, and its QR code. Nothing of it is kept."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Final, NamedTuple

from privreg.base.archive import write_bytes
from privreg.base.optional import need
from privreg.errors import OptionError
from privreg_field import KIT

NEEDED: Final = ("name", "address")
ADDED: Final = ("link", "qr")


class People(NamedTuple):
    """Whom to invite."""

    header: list[str]
    rows: list[list[str]]


def read_people(path: str) -> People:
    """Read a list: a CSV file with the columns name and address, and any others.
    Raises OptionError if there is none that can be read, or a row is incomplete or there twice. Messages name rows,
    never what is in them.
    """
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file, strict=True) if any(cell.strip() for cell in row)]
    except (OSError, ValueError, csv.Error):
        raise OptionError(f"--mail {path!r} can't be read, or is empty; give a CSV file in UTF-8.") from None
    header = [name.strip() for name in header]
    if not set(NEEDED) <= set(header) or set(ADDED) & set(header) or len(set(header)) < len(header):
        raise OptionError(f"--mail {path!r} needs columns name and address, each once, and none named link or qr.")
    places = [header.index(name) for name in NEEDED]
    seen: dict[tuple[str, ...], int] = {}
    for number, row in enumerate(rows, 1):
        if len(row) != len(header) or not all(row[i].strip() for i in places):
            raise OptionError(f"--mail {path!r}: person {number} has no name, no address, or too few or many cells.")
        before = seen.setdefault(tuple(row[i].strip().casefold() for i in places), number)
        if before != number:
            raise OptionError(f"--mail {path!r}: persons {before} and {number} are the same; each gets one invitation.")
    if not rows:
        raise OptionError(f"--mail {path!r} names nobody.")
    return People(header, rows)


def write_codes(links: list[str], folder: str, kind: str = "svg") -> list[str]:
    """Write each link's QR code to a file in a new folder, which only its owner may read; names of the files.
    Raises OptionError if segno is missing, or the folder exists or can't be made.
    """
    segno = need("segno", "qr", "QR codes", KIT)
    try:
        Path(folder).mkdir(mode=0o700)
    except OSError:
        raise OptionError(f"--qr {folder!r} exists, or can't be made; name a new folder.") from None
    out = []
    for number, link in enumerate(links, 1):
        made = io.BytesIO()
        segno.make_qr(link, error="m").save(made, kind=kind, scale=6)
        out.append(str(Path(folder) / f"{number:06d}.{kind}"))
        write_bytes(out[-1], made.getvalue(), secret=True, new=True)
    return out
