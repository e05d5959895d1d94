"""Wrong formulas, declarations and options: which error, what it tells, and that it quotes no data."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import (
    BudgetError,
    DataError,
    FormulaError,
    InferenceError,
    OptionError,
    PrivacyLeakError,
    PrivregError,
    SchemaError,
    UnsupportedArgumentError,
)
from privreg.inference.methods import METHODS
from tests.wrong import (
    BOX,
    BY_PERSON,
    GONE,
    INSIDE,
    LEVELS,
    WORD,
    assert_says_nothing,
    by_arrays,
    by_formula,
    cases,
    check_refusal,
    results,
    rows,
)

FORMULAS = {
    "not a formula": (lambda _: by_formula("y ~ a +* b"), FormulaError, ["'y ~ a +* b'", "can't be read", "y ~ x1"]),
    "formula of the wrong type": (lambda _: by_formula(rows()), FormulaError, ["string such as", "got DataFrame"]),
    "no response": (lambda _: by_formula("~ a"), FormulaError, ["no response", "'y ~ ...'"]),
    "nothing on the right": (lambda _: by_formula("y ~ 0"), FormulaError, ["nothing on the right", "'y ~ 1'"]),
    "response on both sides": (lambda _: by_formula("y ~ a + y"), FormulaError, ["'y' stands on both sides"]),
    "term that learns": (lambda _: by_formula("y ~ center(a)"), PrivacyLeakError, ["center", "public numbers"]),
    "undeclared column": (
        lambda _: by_formula("y ~ aa + b"),
        SchemaError,
        ["'aa' is not declared; declared are 'a', 'b', 'y', 'g'", "Did you mean 'a'?", "bounds={'aa'"],
    ),
    "undeclared response": (lambda _: by_formula(bounds={"a": (0, 1), "b": (0, 1)}), SchemaError, ["'y' is not decl"]),
    "factor without levels": (lambda _: by_formula(levels=None), SchemaError, ["'g' is not declared", "levels={'g'"]),
    "comparison with no level": (
        lambda _: by_formula("y ~ a + I(g == 'w')"),
        FormulaError,
        ["'w' is not a declared level of 'g'", "['u', 'v']"],
    ),
    "reference that is no level": (
        lambda _: by_formula("y ~ C(g, Treatment('w'))"),
        FormulaError,
        ["'w' is not a declared level", "['u', 'v']"],
    ),
    "same column twice": (
        lambda _: by_formula("y ~ a + I(a * 2)"),
        FormulaError,
        ["'a', 'I(a * 2)'", "linearly dependent", "drop one"],
    ),
    "constant by its bounds": (
        lambda _: by_formula(bounds={**BOX, "b": (1, 1)}),
        FormulaError,
        ["'Intercept', 'b'", "linearly dependent"],
    ),
    "factor response for Huber": (
        lambda _: by_formula("g ~ a + b"),
        FormulaError,
        ["'g' is a factor with 2 declared levels", "bounds={'g'"],
    ),
    "logistic response with wide bounds": (
        lambda _: by_formula("y ~ a", family="logistic"),
        FormulaError,
        ["0 or 1", "0 to 50000", "I(y > cut)"],
    ),
    "infinite inside the bounds": (
        lambda _: by_formula("y ~ np.log(a)"),
        FormulaError,
        ["'np.log(a)' is not finite, or can't be computed, somewhere inside", "tighten the bounds"],
    ),
    "rowwise of no function": (lambda _: pr.rowwise(rows()), FormulaError, ["takes a function, got DataFrame"]),
}

SCHEMAS = {
    "bounds of no pair": (lambda _: by_formula(bounds={**BOX, "a": 5}), SchemaError, ["bounds['a'] is a int", "(low,"]),
    "bounds with text": (lambda _: by_formula(bounds={**BOX, "a": ("x", 5)}), SchemaError, ["('x', 5)", "(low, high)"]),
    "empty bounds": (lambda _: by_formula(bounds={**BOX, "a": (5, -5)}), SchemaError, ["(5, -5) is empty", "low <="]),
    "NaN bounds": (lambda _: by_formula(bounds={**BOX, "a": (0, np.nan)}), SchemaError, ["(0, nan) is empty"]),
    "half infinite bounds": (
        lambda _: by_formula(bounds={**BOX, "a": (0, np.inf)}),
        SchemaError,
        ["two finite bounds"],
    ),
    "infinite without scale": (
        lambda _: by_formula(bounds={**BOX, "a": (-np.inf, np.inf)}),
        SchemaError,
        ["without a scale", "moments={'a'"],
    ),
    "bounds beyond floating point": (
        lambda _: by_formula(bounds={**BOX, "a": (0, 10**400)}),
        SchemaError,
        ["two finite bounds"],
    ),
    "bounds that overflow": (lambda _: by_formula(bounds={**BOX, "a": (0, 1e200)}), SchemaError, ["column's unit"]),
    "bounds are a column": (
        lambda _: by_formula(bounds={"a": rows()["a"]}),
        SchemaError,
        ["is a Series", "(low, high)"],
    ),
    "bounds by person": (lambda _: by_formula(bounds={"a": BY_PERSON}), SchemaError, ["bounds['a'] is a dict"]),
    "bounds of no mapping": (lambda _: by_formula(bounds=[(0, 1)]), SchemaError, ["must be a mapping", "got list"]),
    "bounds with a number for a name": (lambda _: by_formula(bounds={1: (0, 1)}), SchemaError, ["has the key 1"]),
    "one level": (lambda _: by_formula(levels={"g": ["u"]}), SchemaError, ["1 level(s)", "at least two"]),
    "a level twice": (lambda _: by_formula(levels={"g": ["u", "u"]}), SchemaError, ["names a level twice"]),
    "NaN for a level": (lambda _: by_formula(levels={"g": [0.5, np.nan]}), SchemaError, ["can't be NaN"]),
    "text for levels": (lambda _: by_formula(levels={"g": "uv"}), SchemaError, ["['no', 'yes']", "got str"]),
    "levels are a column": (lambda _: by_formula(levels={"g": rows()["name"]}), SchemaError, ["a level twice"]),
    "level inside a level": (
        lambda _: by_formula(levels={"g": [rows()["name"], "v"]}),
        SchemaError,
        ["levels are str"],
    ),
    "factor and number": (lambda _: by_formula(levels={"a": [0, 1]}), SchemaError, ["'a' declared as a factor", "one"]),
    "moments without spread": (lambda _: by_formula(moments={"a": (1, 0)}), SchemaError, ["(1, 0)", "sd > 0"]),
    "levels for arrays": (lambda _: by_arrays(levels=LEVELS), SchemaError, ["for formulas", "code factors first"]),
    "array column undeclared": (
        lambda _: by_arrays(exog_names=["const", "a", "bb"]),
        SchemaError,
        ["'bb' is not declared", "Did you mean 'b'?"],
    ),
}

BUDGETS = {
    "mu zero": (lambda _: by_formula(mu=0), BudgetError, ["mu=0", "positive"]),
    "mu negative": (lambda _: by_formula(mu=-1), BudgetError, ["mu=-1 must be a positive number"]),
    "mu NaN": (lambda _: by_formula(mu=np.nan), BudgetError, ["mu=nan", "positive"]),
    "mu infinite": (lambda _: by_formula(mu=np.inf), BudgetError, ["mu=inf", "None for a fit without"]),
    "mu beyond floating point": (lambda _: by_formula(mu=10**400), BudgetError, ["mu=inf"]),
    "mu boolean": (lambda _: by_formula(mu=True), BudgetError, ["must be a number, got bool"]),
    "mu column": (lambda _: by_formula(mu="a"), BudgetError, ["personal budgets", "mu_max=1.0"]),
    "mu Series": (lambda _: by_formula(mu=rows()["a"]), BudgetError, ["must be a number, got Series"]),
    "two budgets": (lambda _: by_formula(rho=0.5), BudgetError, ["exactly one", "got mu and rho"]),
    "no budget": (lambda _: by_formula(mu=GONE), BudgetError, ["exactly one", "got none", "mu=1.0"]),
    "delta without epsilon": (lambda _: by_formula(mu=GONE, delta=1e-6), BudgetError, ["epsilon is missing"]),
    "delta out of range": (lambda _: by_formula(mu=GONE, epsilon=1, delta=1.5), BudgetError, ["delta=1.5", "(0, 1)"]),
    "delta negative": (lambda _: by_formula(mu=GONE, epsilon=1, delta=-1e-6), BudgetError, ["delta=-1e-06", "pure"]),
    "epsilon negative": (
        lambda _: by_formula(mu=GONE, epsilon=-1, delta=1e-6),
        BudgetError,
        ["epsilon=-1", "positive"],
    ),
    "epsilon absurd": (lambda _: by_formula(mu=GONE, epsilon=1e200, delta=1e-6), BudgetError, ["1e-12 to 1e12"]),
    "rho negative": (lambda _: by_formula(mu=GONE, rho=-0.5), BudgetError, ["rho=-0.5", "positive"]),
}

OPTIONS = {
    "unknown family": (lambda _: by_formula(family="hubber"), OptionError, ["'hubber'", "'logistic'", "mean 'huber'?"]),
    "family without brackets": (lambda _: by_formula(family=pr.Logistic), UnsupportedArgumentError, ["lacks its br"]),
    "family of another kind": (lambda _: by_formula(family=rows()), UnsupportedArgumentError, ["got DataFrame"]),
    "Huber's c zero": (lambda _: pr.Huber(0), OptionError, ["c=0", "positive number or 'auto'"]),
    "Huber's c negative": (lambda _: pr.Huber(-1.345), OptionError, ["c=-1.345", "positive"]),
    "Huber's c text": (lambda _: pr.Huber("atuo"), OptionError, ["c='atuo'", "Did you mean 'auto'?"]),
    "Huber's scale NaN": (lambda _: pr.Huber(scale=np.nan), OptionError, ["scale=nan", "positive"]),
    "Huber's scale a column": (lambda _: pr.Huber(scale=rows()["a"]), OptionError, ["scale=<Series>", "positive"]),
    "unknown score_weights": (
        lambda _: by_formula(score_weights="unitt"),
        OptionError,
        ["'published'", "mean 'unit'?"],
    ),
    "rows zero": (lambda _: by_formula(rows=0), OptionError, ["rows=0", "1 or more"]),
    "rows a float": (lambda _: by_formula(rows=1e6), OptionError, ["rows=1000000.0", "whole number"]),
    "rows a frame": (lambda _: by_formula(rows=rows()), OptionError, ["rows=<DataFrame>", "whole number"]),
    "unknown option": (
        lambda _: by_formula(bound=BOX),
        UnsupportedArgumentError,
        ["'bound'", "Did you mean 'bounds'?"],
    ),
    "statsmodels' option": (lambda _: by_formula().fit(cov_type="HC0"), UnsupportedArgumentError, ["inference="]),
    "unknown fit option": (
        lambda _: by_formula().fit(lane=3),
        UnsupportedArgumentError,
        ["fit() option='lane'", "alpha"],
    ),
    "offset of the wrong type": (lambda _: by_formula(offset=rows()["a"]), OptionError, ["name of a column"]),
    "offset undeclared": (lambda _: by_formula(offset="c"), SchemaError, ["offset='c'", "not declared"]),
    "offset a factor": (lambda _: by_formula(offset="g"), SchemaError, ["offset='g'", "numeric column"]),
    "unknown leak": (lambda _: by_formula(allow_leak="level"), OptionError, ["allow_leak='level'", "mean 'levels'?"]),
    "leak of the wrong type": (
        lambda _: by_formula(allow_leak=7),
        OptionError,
        ["allow_leak=7", "('levels', 'scale')"],
    ),
    "leak from an iterable": (
        lambda _: by_formula(data=[rows()], allow_leak="scale"),
        PrivacyLeakError,
        ["in memory", "declare levels= and bounds="],
    ),
    "leak of array levels": (lambda _: by_arrays(allow_leak="levels"), OptionError, ["for formulas"]),
    "unknown tuning": (
        lambda _: by_formula().fit(tuning="eficient"),
        OptionError,
        ["'published'", "mean 'efficient'?"],
    ),
    "unknown inference": (
        lambda _: by_formula().fit(inference="plugin"),
        OptionError,
        ["'plug_in', 'path_curvature', 'plug_in_central'", "Did you mean 'plug_in"],
    ),
    "an inference of another library": (
        lambda _: by_formula().fit(inference=("between_lanes", "bootstrap")),
        OptionError,
        ["inference='bootstrap' is not known", "'block_bootstrap_t', 'anytime'"],
    ),
    "no inference named": (lambda _: by_formula().fit(inference=()), OptionError, ["inference=<tuple>", "one or more"]),
    "inference of a column": (lambda _: by_formula().fit(inference=rows()["a"]), OptionError, ["inference=<Series>"]),
    "inference by number": (lambda _: by_formula().fit(inference=[1]), OptionError, ["inference=1 is not known"]),
    "inference twice": (lambda _: by_formula().fit(inference=["plug_in"] * 2), OptionError, ["twice", "once"]),
    "two plug-ins with the default tuning": (
        lambda _: by_formula().fit(inference=("plug_in", "plug_in_central")),
        InferenceError,
        ["can't share one pass", "Choose one"],
    ),
    "two plug-ins": (
        lambda _: by_formula().fit(tuning="published", inference=("plug_in", "plug_in_central")),
        InferenceError,
        ["can't share one pass", "Choose one"],
    ),
    "central plug-in in a stream": (
        lambda _: by_formula().start(tuning="published", inference="plug_in_central"),
        InferenceError,
        ["single release", "use fit()"],
    ),
    "plug-in without a bound": (
        lambda _: by_formula(
            moments={"a": (20_000, 9_000)}, bounds={k: BOX[k] for k in "by"}, score_weights="unit"
        ).fit(tuning="published", inference="plug_in"),
        InferenceError,
        ["'unit' score weights", "finite bounds=", "'published'", "'random_scaling'"],
    ),
    "plug-in of a quantile": (
        lambda _: by_formula(family="quantile").fit(tuning="published", inference=("random_scaling", "plug_in")),
        InferenceError,
        ["plug_in needs curvature", "Quantile(0.5) has none", "'random_scaling'", "tuning='efficient'"],
    ),
    "central plug-in with the default tuning": (
        lambda _: by_formula().fit(inference="plug_in_central"),
        InferenceError,
        ["inference='plug_in_central' needs tuning='published'", "'anytime', 'plug_in', 'path_curvature'."],
    ),
    "a central plug-in beside the default": (
        lambda _: by_formula().start(inference=("between_lanes", "plug_in_central")),
        InferenceError,
        ["inference='plug_in_central' needs tuning='published'"],
    ),
    "between lanes with the published tuning": (
        lambda _: by_formula().fit(tuning="published", inference="between_lanes"),
        InferenceError,
        ["'between_lanes' needs tuning='efficient'", "there are 'random_scaling', 'batch_means',"],
    ),
    "between four lanes": (
        lambda _: by_formula().fit(inference="between_lanes", lanes=4),
        InferenceError,
        ["needs at least 8", "got lanes=4", "Leave lanes= out", "'random_scaling'"],
    ),
    "between four lanes beside others": (
        lambda _: by_formula().fit(inference=("batch_means", "between_lanes"), lanes=4),
        InferenceError,
        ["inference='between_lanes' compares lanes", "got lanes=4"],
    ),
    "the path of one coefficient's few people": (
        lambda _: by_formula().fit(tuning="published", inference="path_curvature", batch_size=12),
        InferenceError,
        ["path_curvature needs more than 5 updates, and there were 5", "ask more people"],
    ),
    "anytime of few people": (
        lambda _: by_formula().fit(tuning="published", inference="anytime"),
        InferenceError,
        ["begin at 30,000 people", "and 60 will come", "inference='random_scaling'"],
    ),
    **{
        f"steps too flat for {m} with the {tuning} tuning": (
            lambda _, m=m, tuning=tuning: by_formula().fit(tuning=tuning, inference=m, alpha=0.5),
            InferenceError,
            ["alpha=0.5 is the exponent of the steps", "above 1/2", "inference=None"],
        )
        for m, method in METHODS.items()
        for tuning in ("efficient", "published")
        if method.tuning in {"any", tuning}
    },
    "lanes with the published tuning": (
        lambda _: by_formula().fit(tuning="published", lanes=8),
        OptionError,
        ["lanes=8 goes with tuning='efficient'", "single chain"],
    ),
    "lanes zero": (lambda _: by_formula().fit(lanes=0), OptionError, ["lanes=0", "whole number of chains, 1 or more"]),
    "lanes half": (lambda _: by_formula().fit(lanes=1.5), OptionError, ["lanes=1.5", "whole number"]),
    "lanes text": (lambda _: by_formula().fit(lanes="many"), OptionError, ["lanes='many'", "whole number"]),
    "lanes huge": (lambda _: by_formula().fit(lanes=10**6), OptionError, ["lanes=1000000", "at most 1024"]),
    "lanes huger": (lambda _: by_formula().start(lanes=10**400), OptionError, ["lanes=inf", "at most 1024"]),
    "threads zero": (lambda _: by_formula().fit(threads=0), OptionError, ["threads=0", "of threads, 1 or more"]),
    "threads text": (lambda _: by_formula().fit(threads="all"), OptionError, ["threads='all'", "whole number"]),
    "threads huge": (lambda _: by_formula().fit(threads=10**6), OptionError, ["threads=1000000", "at most 256"]),
    "whitened weights with the published tuning": (
        lambda _: by_formula(score_weights="whitened").fit(tuning="published"),
        OptionError,
        ["score_weights='whitened' goes with tuning='efficient'", "'published' and 'unit'"],
    ),
    "published weights with the default tuning": (
        lambda _: by_formula(score_weights="published").fit(),
        OptionError,
        ["score_weights='published' goes with tuning='published'", "'whitened' and 'unit'"],
    ),
    "published slopes with the default tuning": (
        lambda _: by_formula(score_weights="published_slopes").start(),
        OptionError,
        ["score_weights='published_slopes' goes with tuning='published'"],
    ),
    "unknown scaling": (
        lambda _: by_formula(scaling="x"),
        OptionError,
        ["scaling='x'", "'public', 'private'"],
    ),
    "unknown scaling of arrays": (
        lambda _: by_arrays(scaling="privat"),
        OptionError,
        ["scaling='privat'", "Did you mean 'private'?"],
    ),
    "scaling private and leaked": (
        lambda _: by_formula(scaling="private", allow_leak="scale"),
        OptionError,
        ['scaling="private"', 'allow_leak="scale"', "keep one"],
    ),
    "array scaling private and leaked": (
        lambda _: by_arrays(scaling="private", allow_leak="scale"),
        OptionError,
        ["keep one"],
    ),
    "scaling private with the published tuning": (
        lambda _: by_formula(scaling="private", bounds={"a": BOX["a"]}).fit(tuning="published"),
        OptionError,
        ["scaling='private' goes with tuning='efficient'", "declare bounds= or moments="],
    ),
    "levels are never learned": (
        lambda _: by_formula(scaling="private", levels=None, missing="raise").fit(),
        DataError,
        ["'g' has a value that is missing, infinite or no number", "levels={'g'"],
    ),
    "batch_size zero": (lambda _: by_formula().fit(batch_size=0), OptionError, ["batch_size=0", "1 or more"]),
    "batch_size half": (lambda _: by_formula().fit(batch_size=1.5), OptionError, ["batch_size=1.5", "whole number"]),
    "batch_size huge": (lambda _: by_formula().fit(batch_size=10**400), OptionError, ["batch_size=inf", "at most"]),
    "alpha one": (lambda _: by_formula().fit(alpha=1), OptionError, ["alpha=1", "(0, 1)"]),
    "alpha text": (lambda _: by_formula().fit(alpha="x"), OptionError, ["alpha='x'", "(0, 1)"]),
    "intervals at alpha a half": (
        lambda _: by_formula().fit(alpha=0.5),
        InferenceError,
        ["above 1/2", "alpha=0.5", "inference=None"],
    ),
    "step zero": (lambda _: by_formula().fit(step=0), OptionError, ["step=0", "above 0"]),
    "step infinite": (lambda _: by_formula().fit(step=np.inf), OptionError, ["step=inf", "above 0"]),
    "seed negative": (lambda _: by_formula().fit(seed=-1), OptionError, ["seed=-1", "0 or more"]),
    "seed a float": (lambda _: by_formula().fit(seed=1.5), OptionError, ["seed=1.5", "whole number"]),
    "progress text": (
        lambda _: by_formula().fit(progress="bar"),
        OptionError,
        ["progress='bar'", "True, False or None"],
    ),
    "progress a column": (lambda _: by_formula().fit(progress=rows()["a"]), OptionError, ["progress=<Series>"]),
    "start_params too short": (
        lambda _: by_formula().fit(start_params=[0, 0]),
        OptionError,
        ["4 finite numbers", "Intercept, g[T.v], a, b", "shape (2,)"],
    ),
    "start_params NaN": (
        lambda _: by_formula().fit(start_params=[0, 0, 0, np.nan]),
        OptionError,
        ["NaN or infinite", "Intercept, g[T.v], a, b"],
    ),
    "start_params text": (lambda _: by_formula().fit(start_params=["x"] * 4), OptionError, ["must be numbers"]),
    "start_params lacks one": (lambda _: by_formula().fit(start_params={"a": 1}), OptionError, ["lacks 'Intercept'"]),
    "start_params of a stranger": (
        lambda _: by_formula("y ~ 0 + b").fit(start_params={"b": 1, "c": 2}),
        OptionError,
        ["no coefficient; it needs b"],
    ),
}


CASES = cases(formula=FORMULAS, schema=SCHEMAS, budget=BUDGETS, option=OPTIONS)


@pytest.mark.parametrize(("call", "error", "pieces"), CASES)
def test_wrong_input_is_refused_in_words_that_help_and_tell_nothing(call, error, pieces, tmp_path):
    check_refusal(call, error, pieces, tmp_path)


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
CALLS = {
    **{o: lambda v, o=o: by_formula(**{o: v}) for o in MODEL_OPTIONS},
    "rho": lambda v: by_formula(mu=GONE, rho=v),
    "epsilon": lambda v: by_formula(mu=GONE, epsilon=v, delta=1e-6),
    "delta": lambda v: by_formula(mu=GONE, epsilon=1, delta=v),
    "levels": lambda v: by_formula(levels={"g": v}),
    "bounds of a": lambda v: by_formula(bounds={**BOX, "a": v}),
    "low bound of a": lambda v: by_formula(bounds={**BOX, "a": (v, 50_000)}),
    "endog_name": lambda v: by_arrays(endog_name=v),
    **{f"fit {o}": lambda v, o=o: by_formula().fit(**{o: v}) for o in FIT_OPTIONS},
    **{f"start {o}": lambda v, o=o: by_formula().start(**{o: v}) for o in FIT_OPTIONS if o != "progress"},
    "Huber c": lambda v: pr.Huber(v),
    "conf_int alpha": lambda v: results().conf_int(v),
    "conf_int cols": lambda v: results().conf_int(cols=v),
    "method": lambda v: results().cov_params(v),
    "which": lambda v: results().predict(rows(), which=v),
    "restrictions": lambda v: results().wald_test(v),
    "restricted values": lambda v: results().wald_test((np.eye(4), v)),
    "load": pr.load,
    "save": lambda v: results().save(v),
}


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


@pytest.mark.parametrize("option", CALLS)
def test_no_foreign_exception_for_absurd_values(option):
    for value in NUMBERS:
        try:
            CALLS[option](value)
        except PrivregError as error:
            assert_says_nothing(error)
