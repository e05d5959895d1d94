"""Several analyses in one study: what a plan says of all, of each, and who answers which. Standard library only.

A plan with `analyses` has in each what a plan of one analysis has at its top, and `together`: the budget μ of a person,
and, if people are split, up to which word each analysis has its people. Of a study whose people answer everything the
squares of the analyses' budgets add up to μ² at most, in fractions. Each analysis is a plan by itself for whoever plays
it: it has states, rounds and reports of its own, under a hash of its own.
"""

import hashlib
import re
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, NamedTuple

from privreg.protocol.lattice import LEAST_MU, Mu, fraction_of

from .wire import MessageError, Record

MOST: Final = 16  # Analyses of a study, at most
WORDS: Final = 1 << 32  # Thresholds are whole numbers of it
MOST_MU: Final = 10**7  # Numerator and denominator of a budget, at most
NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,30}")

OWN: Final = frozenset({
    "design", "score", "privacy", "roles", "moments", "unscaled", "measures", "rounds", "model", "clamping", "sums",
    "table",
})  # fmt: skip
"""Members that each analysis has. All else is the study's: a device asks its owner once, for the first analysis."""


class Part(NamedTuple):
    """An analysis, as far as it is one of several."""

    name: str = ""  # Empty of a study that has one, without a name
    whole: Mu | None = None  # Budget of a person for all analyses; None: the plan's own
    people: tuple[int, int] = (0, WORDS)  # Tokens that answer it: whose word, see `word_of`, is not below the first


def mu_of(value: float) -> Mu:
    """A budget μ as a fraction of small integers, never more than its decimal digits say.

    Raises
    ------
    MessageError

    Examples
    --------
    >>> mu_of(1.0), mu_of(0.1), mu_of(0.8)
    (Mu(p=1, q=1), Mu(p=1, q=10), Mu(p=4, q=5))
    """
    if not LEAST_MU <= value <= 10.0:
        raise MessageError("mu of a study in the field must lie between 0.00001 and 10.")
    return fraction_of(value)


def parts_of(said: Any) -> list[tuple[Part, dict[str, Any]]]:
    """Each analysis with all members of its plan, those of the study included; raises `MessageError`."""
    record = Record(said, "the plan")
    if not record.has("analyses"):
        return [(Part(), said)]
    found, together = record.items("analyses", most=MOST), record.object("together")
    whole = Mu(*together.integers("mu", 1, MOST_MU, 2))
    split = together.take("below")
    ends = None if split is None else Record({"below": split}, "'together'").integers("below", 1, WORDS, len(found))
    together.done()
    if ends is not None and (ends[-1:] != (WORDS,) or any(b <= a for a, b in pairwise(ends))):
        raise MessageError("'below' of the plan's analyses must ascend to 2^32.")
    common = {k: v for k, v in said.items() if k not in {"analyses", "together"}}
    out: list[tuple[Part, dict[str, Any]]] = []
    for k, one in enumerate(found):
        name = Record(one, "an analysis").text("name", 31)
        members = {key: v for key, v in one.items() if key != "name"}
        if not NAME.fullmatch(name) or name in {part.name for part, _ in out}:
            raise MessageError("an analysis has a short name, a-z, 0-9, - and _, that no other has.")
        members = {key: v for key, v in members.items() if not key.startswith("x_")}
        if members.keys() - OWN or OWN & common.keys():
            raise MessageError("an analysis says what the study says for all, or the study what an analysis says.")
        people = (0, WORDS) if ends is None else (ends[k - 1] if k else 0, ends[k])
        out.append((Part(name, whole, people), common | members))
    if not out:
        raise MessageError("a study has at least one analysis.")
    return out


def together(budgets: Iterable[tuple[Mu, tuple[int, int]]]) -> Fraction:
    """Largest μ² that all reports of a person cost: budgets by the tokens that answer, which are all or a range."""
    spent: dict[tuple[int, int], Fraction] = {}
    for mu, people in budgets:
        spent[people] = spent.get(people, Fraction(0)) + Fraction(*mu) ** 2
    return max(spent.values())


def hash_of_part(plan_hash: bytes, name: str) -> bytes:
    """Hash that names an analysis in states and reports: the plan's, where it has no name."""
    return hashlib.sha256(b"privreg/analysis/v1\0" + plan_hash + name.encode()).digest() if name else plan_hash


def word_of(plan_hash: bytes, token_id: bytes) -> int:
    """32-bit word assigning a token to an analysis: uniform, whatever its owner answers."""
    return int.from_bytes(hashlib.sha256(b"privreg/split/v1\0" + plan_hash + token_id).digest()[:4], "big")
