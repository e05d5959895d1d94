"""Every trust model, every verb that takes one, every option of the table once: it goes, or is refused by its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privreg.cli import app
from privreg.cli.app import main
from privreg.options.table import BUDGET, DOORS, Option, accepted, find, of_verb

TRUSTS = find("local.formula", "trust").choices
N = 1200
BOUNDS = {"y": (0, 40), "x": (-2, 2), "t": (0.5, 2), "w": (0, 3)}
LEVELS = {"g": ["a", "b"], "sick": [0, 1], "school": list(range(16))}
PUBLIC = ["--bounds", *(f"{name}={low}:{high}" for name, (low, high) in BOUNDS.items())]
PUBLIC += ["--levels", *(f"{name}={','.join(map(str, levels))}" for name, levels in LEVELS.items())]
FORMULA = {"fit": "y ~ x + g", "means": "x + C(g) ~ 1", "plan": "y ~ x + g", "show": ""}
LOGISTIC = "--family logistic; sick ~ x"
BY_PERSON = "--id who --k-max 2"
KEPT = "--checkpoint {at}/kept"

# Words for each option, and after a semicolon the formula if it is another
CASES = {
    "sep": "--sep ,", "decimal": "--decimal .", "encoding": "--encoding latin-1",
    "dates": "--dates %d.%m.%Y --bounds day=2020-01-01:2020-12-31; y ~ day",
    "mu": "--mu 3", "mu_max": "--mu mine --mu-max 2", "epsilon": "--epsilon 8 --delta 1e-6", "rho": "--rho 2",
    "epsilon_max": "--epsilon mine --epsilon-max 2 --tuning published",
    "delta": "--epsilon 8 --delta 1e-5", "no_privacy": "--no-privacy",
    "bounds": "", "levels": "", "trust": "", "formula": "", "path": "", "quiet": "--quiet --out {at}/more.json",
    "moments": "--moments x=0:1.2", "schema": "--schema {at}/schema.yaml", "scaling": "--scaling private; y ~ n",
    "allow_leak": "--allow-leak scale; y ~ n", "like": "--like {at}/earlier.{trust}.privreg --seed 4",
    "family": LOGISTIC,
    "covariates": "--covariates {at}/census.csv", "tau": "--family quantile --tau 0.4", "c": "--c 1.3",
    "y_max": "--family poisson --y-max 9; n ~ x", "width": "--family smoothed-hinge --width 0.7; sick ~ x",
    "low": "--family tobit --low 15", "high": "--family tobit --high 30",
    "scale": "--scale 3", "offset": "--offset t", "score_weights": "--score-weights unit", "weights": "--weights w",
    "exposure": "--exposure t --family poisson --y-max 9; n ~ x", "mechanism": "--mechanism gaussian", "id": "--id who",
    "private": "--private response", "max_per_id": "--id who --max-per-id 2", "k_max": BY_PERSON,
    "per_person": f"{BY_PERSON} --per-person mean", "cluster": "--cluster school", "missing": "--missing raise",
    "tuning": "--tuning published", "inference": "--inference none", "batch_size": "--batch-size 64",
    "lanes": "--lanes 8", "rounds": "--rounds 12", "threads": "--threads 1", "order": "--order position",
    "step": "--step 0.5", "alpha": "--step-exponent 0.6", "rows": "--rows 1200",
    "measures": "--measures 0.1", "seed": "--seed 1", "checkpoint": KEPT,
    "checkpoint_rows": f"{KEPT} --checkpoint-rows 500",
    "checkpoint_seconds": f"{KEPT} --checkpoint-seconds 9", "mended": f"{KEPT} --mended",
    "checkpoint_trust": f"{KEPT} --checkpoint-trust {{at}}/secret", "level": "--level 0.9",
    "simultaneous": "--simultaneous", "exponentiate": f"--exponentiate {LOGISTIC}", "out": "--out {at}/more.json",
    "details": "--details",
    "corrections": "--corrections", "frequencies": "--frequencies gaussian", "m": "--m 1", "by": "--by sick",
    "by_budget": "--by sick --by-budget 0=1", "n": "", "effect": "--effect x=0.4", "shares": "--shares g=0.8,0.2",
    "power": "--effect x=0.4 --power 0.9", "params": f"--params x=0.5 {LOGISTIC}", "icc": "--k-max 2 --icc 0.2",
    "coef": "--coef x", "at_n": "--at-n 2000", "at_mu": "--at-mu 2", "check": "--check 2", "plot": "--plot {at}/p.png",
    "dataset": "--dataset survey", "pilot": "--pilot {at}/census.csv",
    "silos": "--silos 3", "compare_trust": "--compare-trust", "compare_families": "--compare-families",
}  # fmt: skip
OF_VERBS = {
    ("plan", "width"): "--width 1", ("plan", "k_max"): "--k-max 2", ("plan", "seed"): "--check 2 --seed 1",
    ("means", "dates"): "--dates %d.%m.%Y --bounds day=2020-01-01:2020-12-31; day ~ 1",
    ("show", "exponentiate"): "--exponentiate",
}  # fmt: skip

TWO_LACK = {
    "mu_max", "epsilon_max", "scaling", "covariates", "score_weights", "private", "max_per_id", "tuning", "lanes",
    "rounds",
}  # fmt: skip
NOT = {
    ("fit", "two_collectors"): TWO_LACK,
    ("fit", "central"): TWO_LACK - {"tuning"} | {"rows", "mended", "alpha", "step", "batch_size", "order"},
    ("means", "two_collectors"): {"mechanism", "frequencies", "m", "max_per_id"},
    ("means", "central"): {"mechanism", "frequencies", "m", "max_per_id"},
    ("fit", "silos"): TWO_LACK | {"allow_leak", "rows", "mended", "alpha", "step", "batch_size", "order"},
    ("plan", "local"): {"silos"},
    ("plan", "two_collectors"): {"private", "silos"},
    ("plan", "silos"): {"private"},
    ("plan", "central"): {"private", "silos"},
    **{("show", trust): {"exponentiate"} for trust in TRUSTS},
}
"""Options that a front door takes, but not with this trust model."""

SLOW = {
    ("plan", trust): {o.name for o in of_verb("plan")} - {"silos", "private", *more}
    for trust, more in {"two_collectors": {"mu", "k_max", "pilot", "effect"}, "central": {"mu"}, "silos": ()}.items()
}
"""Options of which cases of local plans, or of two collectors, say as much: such plans try whole fits."""


SAME = {"formula", "path", "bounds", "levels", "epsilon", "checkpoint", "k_max"}
"""Options of fits whose words are those of others, or among them: `trust`, `delta`, `checkpoint_rows`, `per_person`."""

TOGETHER = (
    *("sep", "decimal", "encoding", "schema", "moments", "scale", "offset", "missing", "threads", "measures", "seed"),
    *("level", "simultaneous", "details", "out"),
)
"""Options of fits that every trust model takes, and all at once: by itself each is tried of local reports."""


@pytest.fixture(scope="module", autouse=True)
def one_parser() -> Iterator[None]:
    """The parser of the command made once: nothing changes it."""
    original, made = app.parsers, []

    def parsers(*given: Any) -> Any:
        made[:] = made or [original(*given)]
        return made[0]

    with pytest.MonkeyPatch.context() as m:
        m.setattr(app, "parsers", parsers)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A file of people, public rows, a schema, and earlier fits."""
    rng, at = np.random.default_rng(1), tmp_path_factory.mktemp("trust")
    x, g = rng.uniform(-2, 2, N), rng.choice(["a", "b"], N)
    table = pd.DataFrame({"y": 20 + 3 * x + (g == "b") + rng.normal(0, 3, N), "x": x, "g": g, "day": "05.06.2020"})
    table["sick"], table["n"] = rng.integers(0, 2, N), rng.poisson(2, N)
    table["t"], table["w"], table["mine"] = rng.uniform(0.5, 2, N), rng.uniform(0.1, 3, N), rng.uniform(1, 2, N)
    table["who"], table["school"] = np.arange(N) // 2, np.arange(N) % 16
    table.to_csv(at / "people.csv", index=False)
    table[: N // 2].to_csv(at / "north.csv", index=False)
    table[N // 2 :].to_csv(at / "south.csv", index=False)
    table.sample(400, random_state=1).assign(x=lambda d: d["x"] / 2).to_csv(at / "census.csv", index=False)
    (at / "schema.yaml").write_text("levels:\n  region: [north, south]\n")
    for trust in TRUSTS:
        kept = ["--seed", "3", "--quiet", "--out", str(at / f"earlier.{trust}.privreg")]
        assert main(["fit", FORMULA["fit"], people(at, trust), *PUBLIC, "--mu", "2", "--trust", trust, *kept]) == 0
    return at


@pytest.mark.thorough
def test_means_have_no_silos(folder: Path, capsys: pytest.CaptureFixture) -> None:
    given = [FORMULA["means"], str(folder / "people.csv"), *PUBLIC, "--mu", "1", "--trust", "silos"]
    assert main(["means", *given]) == 2
    assert "trust" in capsys.readouterr().err


def people(at: Path, trust: str) -> str:
    """The file of people, or of silos two."""
    return f"north={at}/north.csv,south={at}/south.csv" if trust == "silos" else str(at / "people.csv")


def front_door(verb: str, trust: str, option: Option) -> Option | None:
    """The option as the front door of a trust model has it; None if it takes no such option."""
    product = {"fit": "local"}.get(verb, verb)
    doors = [door for door in DOORS if door in {f"{product}.formula", f"{product}.fit"}]
    found = [accepted(door)[option.name] for door in doors if option.name in accepted(door)]
    return found[0] if found else None


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", [t for t in TRUSTS if t != "local"])
def test_options_that_every_trust_model_takes_go_together(trust, folder, capsys):
    words = " ".join(CASES[name] for name in TOGETHER).format(at=folder).split()
    given = ["fit", FORMULA["fit"], people(folder, trust), *PUBLIC, "--mu", "2", "--trust", trust]
    status, (out, err) = main([*given, *words]), capsys.readouterr()
    assert status == 0, err
    assert "90%" in out


@pytest.fixture
def quick_plans(monkeypatch: pytest.MonkeyPatch, shared_rehearsals: None, one_fit: None) -> None:
    """Precision of plans is that of one fit of few people, or of few rehearsals, once for all of the same people.

    And not that of skewed people, too.
    """
    monkeypatch.setattr("privreg.planning.plan.StudyPlan.skewed", None)
    monkeypatch.setattr("privreg.planning.precision.ROWS", 256)
    monkeypatch.setattr("privreg.planning.precision.TIMES", 4096)
    monkeypatch.setattr("privreg.planning.precision.MOST", 6_000)


@pytest.mark.usefixtures("quick_plans")
@pytest.mark.parametrize(
    ("verb", "option", "trust"),
    [
        pytest.param(
            verb,
            o,
            t,
            marks=[pytest.mark.thorough]
            * (
                o.name in (TOGETHER if verb == "fit" and t != "local" else SLOW.get((verb, t), ()))
                or (verb == "fit" and o.name in SAME)
            )
            + [pytest.mark.some] * ((verb, o.name, t) != ("plan", "private", "local")),
        )
        for t in TRUSTS
        for verb in FORMULA
        for o in of_verb(verb)
        if (verb, t) != ("means", "silos")
    ],
)
def test_every_option_goes_or_is_refused_by_its_name(verb, option, trust, folder, capsys):
    own = front_door(verb, trust, option) if option.doors else option
    words, _, formula = OF_VERBS.get((verb, option.name), CASES[option.name]).partition(";")
    if own is not None and own is not option and own.choices and option.choices:
        words = f"{option.spelt} {own.choices[0]}"
    words = words.format(at=folder, trust=trust).split()
    if verb == "show":
        given = [str(folder / f"earlier.{trust}.privreg")]
    else:
        given = [
            formula.strip() or FORMULA[verb],
            *([] if verb == "plan" else [people(folder, trust if verb == "fit" else "")]),
            *PUBLIC,
        ]
        given += [] if option.group == BUDGET else ["--mu", "2"]
        given += ["--n", "3000"] if verb == "plan" and not {"--width", "--effect"} & set(words) else []
        given += ["--trust", trust]
        given += ["--silos", "3"] if (verb, trust) == ("plan", "silos") and "--silos" not in words else []
        given += ["--rows", "600"] if verb == "fit" and "--k-max" in words and trust not in {"central", "silos"} else []
    status, (out, err) = main([verb, *given, *words]), capsys.readouterr()
    if option.families:  # not every trust model has every family
        assert status == 0 or option.name in err
    elif own is None or option.name in NOT.get((verb, trust), ()):
        assert status == 2
        assert any(word[2:] in err for word in words if word.startswith("--")), err
    else:
        assert status == 0, err
        assert out or "--quiet" in words
