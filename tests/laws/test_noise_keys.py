"""Keys of a fit: one for each purpose, none of which tells another, and none of use in a forked process."""

import os

import numpy as np
import pytest

from privreg.errors import StreamError
from privreg.privacy.noise import KEY_BYTES, NoiseStream, derived_key, seeded_key
from tests.helpers import array_model

KEY = seeded_key(4)
LABELS = ("central", "score", "curvature", "0 location", "0 moments", "1 moments", "10 moments", "lanes", "")


def test_keys_for_different_purposes_differ_from_each_other_and_from_the_key():
    keys = [KEY, seeded_key(5), *(derived_key(k, label) for k in (KEY, seeded_key(5)) for label in LABELS)]
    assert len(set(keys)) == len(keys)
    assert {len(k) for k in keys} == {KEY_BYTES}
    assert derived_key(KEY, "central") == derived_key(KEY, "central")
    drawn = [NoiseStream(k, 3).peek()[:50] for k in keys]
    for i, one in enumerate(drawn):
        assert not any(np.isin(one, other).any() for other in drawn[:i])


def test_seeds_of_other_fits_give_other_keys():
    assert len({seeded_key(s, label) for s in range(20) for label in ("", "pilot", "1")}) == 60


@pytest.mark.parametrize("inference", ["plug_in_central", "plug_in"])
def test_noise_of_a_release_beside_the_chain_is_not_the_chain_s(monkeypatch, inference):
    made = {}

    class Recording(NoiseStream):
        def __init__(self, key, width):
            super().__init__(key, width)
            made[len(made)] = (key, NoiseStream(key, width).peek()[:200].copy())

    for module in ("privreg.published.chain.run", "privreg.fits.published"):
        monkeypatch.setattr(f"{module}.NoiseStream", Recording)
    array_model(400).fit(tuning="published", inference=inference, seed=3)
    assert len(made) == 2  # the chain's, and that of the release, or of the people who send curvature
    assert len({key for key, _ in made.values()} | {seeded_key(3)}) == 3
    assert not np.isin(made[0][1], made[1][1]).any()


def test_a_forked_process_is_handed_no_noise(monkeypatch):
    stream = NoiseStream(KEY, 700)
    stream.draw(3)
    with monkeypatch.context() as m:
        m.setattr(os, "getpid", lambda: -1)
        for rows in (1, 200):  # from the block in hand, and beyond it
            with pytest.raises(StreamError, match="another process"):
                stream.draw(rows)
    np.testing.assert_array_equal(stream.draw(100), NoiseStream(KEY, 700).draw(103)[3:])
