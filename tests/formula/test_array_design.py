"""Designs from arrays."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.errors import DataError, FormulaError, PrivregError, SchemaError
from privreg.formula.describe import design_from_json
from privreg.formula.design import Design, array_design
from privreg.schema.declarations import Schema
from tests.designs import SCHEMA, SENTINEL, shown


class TestArrays:
    schema = Schema.declare({"x1": (-1, 1), "x2": (0, 10), "y": (0, 5), "offset": (0, 2)})

    def test_encode(self):
        design = array_design(["const", "x1", "x2"], "y", self.schema, offset=True)
        x = np.array([[7.0, -3, 5], [0.0, 0.5, 50]])
        got = design.encode((np.array([9.0, 1]), x, np.array([3, 1])))
        np.testing.assert_array_equal(got.exog, [[1, -1, 5], [1, 0.5, 10]])
        np.testing.assert_array_equal(got.endog, [5, 1])
        np.testing.assert_array_equal(got.offset, [2, 1])
        np.testing.assert_array_equal(design.encode_exog(x), [[1, -3, 5], [1, 0.5, 50]])
        np.testing.assert_array_equal(design.encode_exog(x.astype(int) > 0)[:, 0], [1, 1])
        assert x[0, 0] == 7
        assert design.names == ("const", "x1", "x2")
        assert design.constant.tolist() == [1, 0, 0]
        assert design.endog_limits == (0, 5)
        assert design.columns == ("y", "const", "x1", "x2", "offset")
        assert array_design(["x1", "x2"], "y", self.schema).constant is None

    def test_declared_constant_with_another_value(self):
        schema = Schema.declare({"x": (0, 1), "k": (2, 2), "y": (0, 1)})
        design = array_design(["x", "k"], "y", schema)
        np.testing.assert_allclose(design.constant, [0, 0.5])
        np.testing.assert_array_equal(design.encode_exog(np.array([[0.5, 9]])), [[0.5, 2]])
        with pytest.raises(FormulaError, match="'const', 'k'"):
            array_design(["const", "x", "k"], "y", schema)

    def test_binary(self):
        design = array_design(["x1"], "won", self.schema, kind="binary")
        x = np.zeros((2, 1))
        np.testing.assert_array_equal(design.encode((np.array([True, False]), x)).endog, [1, 0])
        np.testing.assert_array_equal(design.encode((np.array([[1], [0]]), x)).endog, [1, 0])
        with pytest.raises(DataError, match="other than 0 and 1"):
            design.encode((np.array([SENTINEL, 0]), x))
        coded = array_design(["x1"], "s", Schema.declare({"x1": (0, 1)}, {"s": ["no", "yes"]}), kind="binary")
        np.testing.assert_array_equal(coded.encode((np.array(["yes", "no"]), x)).endog, [1, 0])

    def test_refused(self):
        for names, endog, kwargs, piece in (
            (["x1", "nope"], "y", {}, "'nope' is not declared"),
            (["x1"], "z", {}, "'z' is not declared"),
            (["x1", "x1"], "y", {}, "must be given and differ"),
            (["x1"], "y", {"kind": "binary"}, "0 or 1"),
        ):
            with pytest.raises(SchemaError, match=piece):
                array_design(names, endog, self.schema, **kwargs)
        with pytest.raises(SchemaError, match="use a formula"):
            array_design(["smoker"], "y", SCHEMA)
        with pytest.raises(SchemaError, match="3 declared levels"):
            array_design(["age"], "region", SCHEMA, kind="binary")

    @pytest.mark.parametrize(
        ("y", "x", "o", "piece"),
        [
            ([1.0, SENTINEL], [[1.0, np.nan], [SENTINEL, 2]], None, "'x2' has a value that is missing"),
            ([1.0, np.nan], [[1.0, SENTINEL], [1, 2]], None, "'y' has a value that is missing"),
            ([1.0, 2], [[1.0, SENTINEL, 3]], None, "2 columns"),
            ([1.0, 2, SENTINEL], [[1.0, 2], [3, 4]], None, "differ in their number of rows"),
            ([1.0, 2], [["SECRETLEVEL", 2], [3, 4]], None, "'x1' has a value that is .* no number"),
            ([[1.0, 2]], [[1.0, 2]], None, "one-dimensional"),
            ([1.0], [[1.0, 2]], [1.0], "offset"),
        ],
    )
    def test_bad_arrays(self, y, x, o, piece):
        design = array_design(["x1", "x2"], "y", self.schema)
        with pytest.raises(PrivregError, match=piece) as caught:
            design.encode((np.array(y), np.array(x), o))
        assert "987654" not in shown(caught.value)
        assert "SECRETLEVEL" not in shown(caught.value)

    def test_rows_that_cant_be_used(self):
        design = array_design(["x1", "x2"], "y", self.schema)
        y = [1.0, None, "1e1", 2.0, 1j]
        x = [[1.0, "-2"], [1, 2], [True, 1.5], ["SECRETLEVEL", 2], [1, [2]]]
        batch = (y, x)
        with pytest.raises(DataError, match="'y' has a value that is missing"):
            design.encode(batch)
        noise, drop = (design.encode(batch, missing) for missing in ("noise", "drop"))
        low, high = self.schema.limits("y")
        nan = np.nan
        np.testing.assert_array_equal(noise.endog, [1, nan, np.clip(10, low, high), nan, nan])
        want = design.encode(([1.0] * 3, [[1.0, -2.0], [1, 2], [1, 1.5]])).exog
        np.testing.assert_array_equal(noise.exog, [*want, [nan, nan], [nan, nan]])
        np.testing.assert_array_equal(drop.kept, [True, False, True, False, False])
        np.testing.assert_array_equal(drop.endog, noise.endog[drop.kept])
        np.testing.assert_array_equal(drop.exog, noise.exog[drop.kept])

    def test_pickle_and_json(self):
        design = array_design(["const", "x1"], "y", self.schema, offset=True)
        copies = [
            pickle.loads(pickle.dumps(design)),
            design_from_json(json.loads(json.dumps(design.to_json()))),
        ]
        for copy in copies:
            assert isinstance(copy, Design)
            assert copy == design
            assert hash(copy) == hash(design)
            np.testing.assert_array_equal(copy.probe, design.probe)
        assert design != array_design(["const", "x1"], "y", self.schema)

    @pytest.mark.thorough
    @settings(max_examples=15, deadline=None)
    @given(cut=st.integers(0, 20), seed=st.integers(0, 99))
    def test_batches(self, cut, seed):
        rng = np.random.default_rng(seed)
        design = array_design(["const", "x1", "x2"], "y", self.schema)
        y, x = rng.normal(size=20) * 5, rng.normal(size=(20, 3)) * 5
        whole = design.encode((y, x))
        parts = [design.encode((y[s], x[s])) for s in (slice(None, cut), slice(cut, None))]
        np.testing.assert_array_equal(np.concatenate([p.exog for p in parts]), whole.exog)
