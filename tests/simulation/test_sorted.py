"""Rows that come sorted, where they can't be dealt: the note is of their order."""

import numpy as np
import pandas as pd
import pytest

from tests.tables import model


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
@pytest.mark.usefixtures("usual_rounds")
def test_a_sorted_stream_is_noted_as_its_order_and_not_as_rare_levels():
    rng, n = np.random.default_rng(0), 40_000
    data = pd.DataFrame({"x": rng.uniform(-1, 1, n), "g": np.repeat(["u", "v", "w", "u"], n // 4)})
    data["y"] = data["x"] + 3.0 * (data["g"] == "v") + 0.2 * rng.standard_normal(n)
    data = data.sort_values(["g", "y"])
    parts = (data.iloc[a : a + 5_000] for a in range(0, n, 5_000))
    res = model(parts, formula="y ~ x + g", rows=n, mu=4).fit(seed=1, progress=False)
    codes = {note.code for note in res.privacy.notes}
    assert "changing" in codes
    assert "rare" not in codes
