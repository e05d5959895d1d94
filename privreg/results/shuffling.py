"""What reports would be worth behind a trusted shuffler, in words, with all that has to hold."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from privreg.privacy.amplification import shuffled, shuffling_limit
from privreg.privacy.ledger import at_least


def shuffled_words(n: int, epsilon: float, delta: float, *, seeded: bool, leaked: Sequence[str]) -> str:
    """Say what n reports, each under pure ε, would be worth; see `PrivacyStatement.shuffled`.

    `seeded` says whether noise was reproducible, `leaked` what was taken from the raw data.
    """
    whole = shuffled(epsilon, n, delta)
    limit = shuffling_limit(n, delta)
    lead = "NOT AS RUN, because of seed=; with secret noise, i" if seeded else "I"
    if leaked:
        lead = f"Not counting {' and '.join(leaked)}, taken from the raw data: {lead.lower()}"
    out = [
        f"{lead}f, and only if, a trusted shuffler stood between the {n:,} people and the collector, all their "
        f"reports together would be ({at_least(whole, 3)}, {delta:g})-DP towards whoever sees no more than the "
        f"shuffler passes on (Feldman, McMillan & Talwar 2021, Theorem III.1, neighbours replacing one record; it "
        f"asks for a local epsilon up to log(n/(16 log(2/delta))) = {limit:.3g}, here {epsilon:g}). It assumes that",
        f"each person sends one report, which alone is pure {epsilon:g}-DP;",
        "people are called in an order that is uniformly random and unknown to the attacker; the randomiser may "
        "depend on earlier reports and on the place in the order, never on who is called;",
        "nothing else, such as an address or a time of arrival, tells who sent which report.",
    ]
    last = (
        "This package sends the current state to one person after another and shuffles nothing. Whoever runs the "
        f"exchange knows who answered when: against them, only the local {epsilon:g}-DP holds."
    )
    lines = [textwrap.fill(out[0], 78)]
    lines += [
        textwrap.fill(f"[{i}] {text}", 78, subsequent_indent="    ", break_on_hyphens=False)
        for i, text in enumerate(out[1:], 1)
    ]
    return "\n".join([*lines, textwrap.fill(last, 78)])
