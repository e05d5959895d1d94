"""Wrong formulas, declarations and options: which error, what it tells, and that it quotes no data."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import (
    PrivregError,
)
from tests.wrong import (
    BOX,
    GONE,
    INSIDE,
    WORD,
    assert_says_nothing,
    by_arrays,
    by_formula,
    results,
    rows,
)

COLUMNS = {
    "Series": lambda: rows()["a"],
    "texts": lambda: rows()["name"],
    "list": lambda: rows()["a"].tolist(),
    "list of texts": lambda: rows()["name"].tolist(),
    "array": lambda: rows()["a"].to_numpy(),
    "frame": rows,
    "by person": lambda: rows()["a"].to_dict(),
    "index": lambda: rows().index,
    "zero-dimensional": lambda: np.array(INSIDE),
    "bytes": WORD.encode,
}
MODEL_OPTIONS = ("family", "mu", "bounds", "moments", "scaling", "score_weights", "offset", "rows", "allow_leak")
FIT_OPTIONS = (
    *("tuning", "inference", "lanes", "threads", "batch_size", "alpha", "step", "start_params", "seed", "progress"),
)
OF_STEPS = {option: {"tuning": "published"} for option in ("batch_size", "alpha", "step")}
CALLS = {
    **{o: lambda v, o=o: by_formula(**{o: v}) for o in MODEL_OPTIONS},
    "rho": lambda v: by_formula(mu=GONE, rho=v),
    "epsilon": lambda v: by_formula(mu=GONE, epsilon=v, delta=1e-6),
    "delta": lambda v: by_formula(mu=GONE, epsilon=1, delta=v),
    "levels": lambda v: by_formula(levels={"g": v}),
    "bounds of a": lambda v: by_formula(bounds={**BOX, "a": v}),
    "low bound of a": lambda v: by_formula(bounds={**BOX, "a": (v, 50_000)}),
    "endog_name": lambda v: by_arrays(endog_name=v),
    **{f"fit {o}": lambda v, o=o: by_formula().fit(**OF_STEPS.get(o, {}), **{o: v}) for o in FIT_OPTIONS},
    **{
        f"start {o}": lambda v, o=o: by_formula().start(**OF_STEPS.get(o, {}), **{o: v})
        for o in FIT_OPTIONS
        if o != "progress"
    },
    "Huber c": lambda v: pr.Huber(v),
    "conf_int alpha": lambda v: results().conf_int(v),
    "conf_int cols": lambda v: results().conf_int(cols=v),
    "meta_analysis terms": lambda v: pr.meta_analysis([results(), results()], terms=v),
    "plot_coef terms": lambda v: results().plot_coef(terms=v),
    "method": lambda v: results().cov_params(v),
    "which": lambda v: results().predict(rows(), which=v),
    "restrictions": lambda v: results().wald_test(v),
    "restricted values": lambda v: results().wald_test((np.eye(4), v)),
    "load": pr.load,
    "save": lambda v: results().save(v),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("option", CALLS)
def test_a_column_given_for_an_option_is_not_printed(option):
    for kind, make in COLUMNS.items():
        if option in {"bounds", "moments"} and kind == "by person":
            continue  # a mapping's keys are column names: they are quoted by contract
        value = make()
        with pytest.raises(PrivregError) as caught:
            CALLS[option](value)
        assert_says_nothing(caught.value)


NUMBERS = [np.nan, np.inf, -np.inf, 10**400, -(10**400), True, None, 1j, "", b"", (), [], {}, object(), pd.NA]


@pytest.mark.some(4)
@pytest.mark.parametrize("option", CALLS)
def test_no_foreign_exception_for_absurd_values(option):
    for value in NUMBERS:
        try:
            CALLS[option](value)
        except PrivregError as error:
            assert_says_nothing(error)
