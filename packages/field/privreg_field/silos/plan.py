"""Plans of silos: a model, its public declarations and who takes part, signed by the analyst."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privreg.data.sources.database import sql
from privreg.data.sources.open import SILO
from privreg.doors.regression import PrivateOnlineRegression
from privreg.errors import BudgetError, OptionError, PrivregError, meant, real, whole
from privreg.protocol.lattice import Mu, fraction_of
from privreg.schema import files
from privreg.schema.declarations import Schema
from privreg_field.device import ed25519
from privreg_field.study import keys
from privreg_field.study.declaring.declared import family_of
from privreg_field.wire import wire
from privreg_field.wire.wire import MessageError, Record

KIND: Final = "silos"
LEAST: Final = 100  # Rows of a silo, at least, if the plan says nothing else
MOST_ROWS: Final = 2**40

_NEEDED: Final = ("study", "title", "contact", "silos", "formula", "mu")
_MODEL: Final = (
    "formula", "family", "mu", "offset", "exposure", "weights", "id", "k_max", "per_person", "score_weights", "cluster",
)  # fmt: skip
KEYS: Final = {*_NEEDED, "least", "measures", *_MODEL, *files.PARTS}
"""Keys of a plan's YAML or JSON file."""


class Entry(NamedTuple):
    """A silo's public part in a study."""

    silo: str
    rows: int
    clusters: tuple[int, ...] = ()  # Rows by cluster, where clusters are declared by levels

    @classmethod
    def read(cls, record: Record, least: int = 1, many: int | None = None) -> Entry:
        """Read one of so many rows at least, and of so many clusters; raises `MessageError`."""
        rows, clusters = record.integer("rows", least, MOST_ROWS), record.integers("clusters", 0, MOST_ROWS, many)
        if sum(clusters) != rows * bool(clusters):
            raise MessageError("an entry has other people by cluster than in all.")
        return cls(record.text("silo"), rows, clusters)


def source(said: str) -> Any:
    """Rows that a silo's file names, as JSON: a path, or the address of a database and a query; or none."""
    place, *query = json.loads(said) if said else [iter(())]
    return sql(query[0], place) if query else place


class SiloPlan(NamedTuple):
    """A plan, verified; what `sign` wrote."""

    digest: bytes  # Hash of the payload, which names the plan
    said: dict[str, Any]  # Declarations by key of its file
    silos: tuple[str, ...]  # Names of those who are asked, in the order of their sums
    least: int  # Rows of a silo, at least
    mu: Mu  # Budget per person of all rounds together

    @property
    def clusters(self) -> int:
        """Clusters that an entry has the people of; none of silos that are clusters themselves."""
        column = self.said.get("cluster")
        return 0 if column in (None, SILO) else len(self.said["levels"][column])

    def model(self, silos: Sequence[str] = (), mine: str = "", data: str = "") -> PrivateOnlineRegression:
        """The model of some silos, all by default, with the rows of one. Raises as `from_formula` does."""
        given = {name: self.said[name] for name in _MODEL if name in self.said}
        given["family"] = family_of(given.get("family", "huber"))
        schema = Schema.from_document({name: self.said[name] for name in files.PARTS if name in self.said})
        parts = {name: source(data if name == mine else "") for name in silos or self.silos}
        return PrivateOnlineRegression.from_formula(given.pop("formula"), parts, trust="silos", schema=schema, **given)

    @property
    def words(self) -> str:
        """The plan as its silos' owners read it before they accept it."""
        spec, said = self.model()._spec, self.said
        return f"""\
Plan {wire.base(self.digest)}
Study:     {said["study"]}: {said["title"]} ({said["contact"]})
Formula:   {spec.formula}
Family:    {spec.family!r}
Silos:     {", ".join(self.silos)}; each with {self.least:,} rows or more
Guarantee: {spec.budget} for each person, in all rounds, against everybody outside their silo
Sent:      the number of your rows, also by cluster, and in each round the sum of bounded reports of all of them, to \
which this machine adds noise; no row, and no sum without noise
""" + "\n".join(f"Public:    {name}: {text}" for name, text in spec.declared())


def sign(path: str | Path, key: Ed25519PrivateKey) -> bytes:
    """The signed plan of a YAML or JSON file. Raises OptionError, SchemaError or another PrivregError if it is none."""
    payload = wire.dumps({"plan": json.dumps(files.document(path))})
    _read(payload)
    return keys.signed(KIND, payload, key)


@lru_cache(16)
def verified(envelope: bytes, root: bytes) -> SiloPlan:
    """Read a plan that the public key `root` has signed, the same one once; raises `MessageError` if it is none."""
    found = wire.open_envelope(envelope, KIND)
    if not any(ed25519.verify(root, wire.signed_bytes(KIND, found.payload), sig) for _, sig in found.signatures):
        raise MessageError("the plan is not signed by this key.")
    try:
        return _read(found.payload)
    except PrivregError as e:
        raise MessageError(f"the plan is none that silos fit: {e}") from None


def _read(payload: bytes) -> SiloPlan:
    said = json.loads(Record(wire.loads(payload, "the plan"), "the plan").text("plan", 1 << 20))
    if not isinstance(said, dict):
        raise OptionError("the file of a plan has keys and values, as in 'formula: y ~ age'.")
    wire.must_show([json.dumps(said, ensure_ascii=False)], "the plan")
    for name in [*said, *_NEEDED]:
        if name not in KEYS:
            raise OptionError(f"a plan of silos has no {name!r}.{meant(name, KEYS)}")
        if said.get(name) is None:
            raise OptionError(f"the plan needs {name!r}.")
    mu, silos, least = real(said["mu"]), said["silos"], whole("least", said.get("least", LEAST), 1)
    if mu is None or not 0.0 < mu < math.inf:
        raise BudgetError("mu of a plan is a positive number.")
    if not isinstance(silos, list) or not 0 < len(silos) == len(set(map(str, silos))):
        raise OptionError("silos of a plan is a list of different names, as in [north, south].")
    plan = SiloPlan(wire.hash_of(payload), said, tuple(silos), least, fraction_of(mu))
    plan.words  # noqa: B018 - it refuses what silos can't fit
    return plan
