"""Plans and states of fits by rounds, for tests that play their devices."""

import math

import numpy as np

from privreg.collector.covariates.moments import Layout
from privreg.collector.plan import Columns, Plan
from privreg.families.scores import ScoreRules
from privreg.protocol import codes
from privreg.protocol.plans import Shape
from privreg.protocol.rounds import GROUPS, State
from privreg.protocol.schedule import Round
from tests.kinds import mechanism

SCHEDULE = (
    Round("moments", 100),
    Round("moments", 100, optional=True),
    Round("pilot", 200),
    *[Round("main", -1)] * 3,
)


def plan_by_rounds(kind, name="gaussian", *, d=3, label=False, blocks=1, track=False, strength=2.0, **more):
    """A plan of a family's score; pilot reports are joint if `track`."""
    shape = kind.shape if blocks == 1 else Shape(codes.MULTINOMIAL, 0.0, 0.0, 0)
    given = {
        "rounds": SCHEDULE,
        "rules": ScoreRules(shape, 0.7, track, 0.4, varying=False),
        "layout": Layout(True, False),
        "mechanism": mechanism(name, strength),
        "d": d,
        "blocks": blocks,
        "label": label,
        "y_low": kind.low,
        "y_high": kind.high,
        "unscaled": (),
        "theta": None,
        "c": 0.8,
        "columns": Columns((0.0,) * d),
        "whitened": True,
        "nonresponse": False,
        "rows": 1000,
        "function": kind.function,
    }
    return Plan(**{**given, **more})


def state_of(plan, role, rng, *, size=1.0, theta=None):
    """A public state, as any reports may have brought it about."""
    d, groups = plan.d, GROUPS if role in {"location", "main"} else 1
    rows = np.tril(0.3 * rng.standard_normal((d, d))) + np.eye(d)
    return State(
        number=4,
        role=role,
        rows=size * rows,
        y_centre=0.0,
        y_scale=1.0,
        theta=rng.standard_normal(plan.size) if theta is None else theta,
        c=math.exp(rng.uniform(-1.0, 1.0)),
        offsets=0.2 * rng.standard_normal((groups, plan.size)) * (groups > 1),
        kappa=plan.kappa(role),
        thresholds=rng.standard_normal((groups, len(plan.unscaled))),
    )
