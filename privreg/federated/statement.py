"""The privacy statement of a federated fit: who is protected, and by how much."""

from __future__ import annotations

from functools import partial

from privreg.diagnostics import Diagnostic
from privreg.federated.plan import Plan
from privreg.federated.verification import trials
from privreg.privacy.ledger import Release, at_least
from privreg.results.statement import PrivacyStatement

PROTECTS = (
    "one silo's whole contribution (client level): neighbours replace all records of one silo at once, and their "
    "number. Within its silo nobody is protected from the silo, which holds the raw records"
)


def make_statement(plan: Plan, release: Release, trust: str, *, seeded: bool = False) -> PrivacyStatement:
    """State what a plan's rounds protect.

    `release` is the most that any of these silos has released in this process; `trust` is "simulated", if one process
    held all silos' records and played them, or "flower".
    """
    m, private = plan.mechanism, plan.budget.private
    beside = f", and beside it the share of usable records, times {plan.kappa:.4g}" if plan.kappa else ""
    return PrivacyStatement(
        setting="silos",
        budget=plan.budget,
        trust=trust,
        mechanism=f"in each round {m.title}",
        noise=m.words(),
        noise_sd=0.0,
        bound=plan.clip,
        weights=f"l2 norm of the whole update at most {plan.clip:.4g}, internal units{beside}; replacing it "
        f"moves it by {2 * m.clip:.4g}. All rounds together can move the model by {plan.rounds * plan.clip:.4g}",
        curvature="",
        protects=PROTECTS,
        per_round=_per_round(plan),
        release=release,
        declared=plan.spec.declared("count for nothing"),
        notes=_notes(plan),
        seeded=seeded,
        certain_mu=plan.total_mu if private else None,
        neighbours=partial(trials, m, rounds=plan.rounds) if private else None,
    )


def _per_round(plan: Plan) -> str:
    """What a silo loses in one round."""
    if not plan.budget.private:
        return "everything: no noise"
    one, rounds = plan.mechanism.budget, plan.rounds
    if plan.budget.pure:
        return f"{at_least(one.epsilon, 4)}-DP, pure; epsilon adds up over {rounds} rounds"
    own = f" (pure epsilon {at_least(one.epsilon, 4)})" if one.pure and not plan.mechanism.coordinates else ""
    return f"{at_least(plan.report_mu, 4)}-GDP{own}; times sqrt({rounds}) for {rounds} rounds"


def _notes(plan: Plan) -> tuple[Diagnostic, ...]:
    """Whatever qualifies the fit."""
    m, private = plan.mechanism, plan.budget.private
    text = (
        "Coefficients have no standard errors: clipping and local steps move what rounds settle at, by an amount that "
        "depends on the silos and is not known."
    )
    out = [Diagnostic("no_errors", text)]
    if plan.weights is not None:
        text = "The silos' weights were declared public and are protected by nothing."
        out.append(Diagnostic("public_weights", text))
    if m.geometric and private:
        biases = {
            "Angle noise shrinks the mean of a report towards zero, and debias=False leaves it so.": not m.debias,
            f"Directions outside the fixed box of factor beta={m.beta:g} are moved into it: a bias.": m.beta < 1.0,
            "Every update counts with the public magnitude, the clip, however short it was.": m.name == "ldpvec",
        }
        out += [Diagnostic("biased", text) for text, holds in biases.items() if holds]
    if private:
        text = "Noise is drawn in double precision: the guarantee holds up to floating-point rounding."
        out.append(Diagnostic("rounding", text))
    return tuple(out)
