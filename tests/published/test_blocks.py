"""Blocks of a path: sums between marks, whatever the number of updates, as many as are wanted and no others."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.published.chain import path as blocks
from privreg.published.chain.path import Layout

D = 2


def walked(layout, updates, seed=0):
    """Blocks of a random path, and its running sums after each update, shape (n, d)."""
    sums = np.random.default_rng(seed).standard_normal((updates, D)).cumsum(axis=0)
    found, counts = blocks.begin(layout, D), []
    while (at := blocks.next_mark(found)) <= updates:
        found = blocks.noted(found, at, sums[at - 1])
        counts.append((at, len(found.sums)))
    return found, sums, counts


LAYOUTS = st.builds(
    Layout,
    spare=st.floats(0.05, 0.95),
    least=st.integers(1, 40),
    edges=st.sets(st.integers(1, 900), max_size=8).map(lambda e: tuple(sorted(e))),
)


@pytest.mark.thorough
@settings(max_examples=100, deadline=None)
@given(layout=LAYOUTS, updates=st.integers(0, 800))
def test_joined_blocks_are_sums_of_the_path_whatever_the_number_of_updates(layout, updates):
    found, sums, _ = walked(layout, updates)
    m, length = len(found.sums), found.length
    assert m == updates // length
    assert length & (length - 1) == 0
    np.testing.assert_array_equal(blocks.ends(found), length * np.arange(1, m + 1))
    np.testing.assert_array_equal(found.sums, sums[length * np.arange(1, m + 1) - 1])
    past = [e for e in layout.edges if e <= updates]
    np.testing.assert_array_equal(found.edge_sums, sums[np.array(past, dtype=int) - 1])


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(layout=LAYOUTS, updates=st.integers(0, 300))
def test_moved_blocks_are_those_of_the_path_about_another_reference(layout, updates):
    found, sums, _ = walked(layout, updates)
    move, about = np.array([0.3, -2.0]), blocks.begin(layout, D)
    shifted = sums - np.arange(1.0, updates + 1.0)[:, None] * np.array([0.3, -2.0])
    while (at := blocks.next_mark(about)) <= updates:
        about = blocks.noted(about, at, shifted[at - 1])
    for name in ("sums", "edge_sums"):
        np.testing.assert_allclose(getattr(blocks.moved(found, move), name), getattr(about, name), atol=1e-9)


@settings(max_examples=150, deadline=None)
@given(layout=LAYOUTS, updates=st.integers(1, 800))
def test_there_are_as_many_blocks_as_wanted_and_fewer_than_twice_that(layout, updates):
    *_, counts = walked(layout, updates)
    edges = set(layout.edges)
    for at, count in counts:
        wanted = blocks.wanted(layout, at)
        assert count < 2 * wanted
        assert count >= min(wanted, at) or at in edges  # at an edge the last block is not finished


@pytest.mark.parametrize("spare", [0.2, 0.25, 0.5])
def test_their_number_grows_like_a_power_of_the_updates(spare):
    layout, found = Layout(spare, 1), None
    for log2 in (10, 13, 16):
        n, found = 2**log2, blocks.begin(layout, 1)
        while (at := blocks.next_mark(found)) <= n:
            found = blocks.noted(found, at, np.zeros(1))
        assert n**spare <= len(found.sums) <= 2 * (n**spare + 1)
        assert len(found.sums) * found.length <= n < (len(found.sums) + 1) * found.length
    assert found.length > 2**16 / (2 * 2 ** (16 * spare) + 2) / 2


def test_wanted_is_a_power_of_the_updates_and_never_under_the_least():
    assert [blocks.wanted(Layout(0.25, 1), n) for n in (0, 1, 16, 17, 81, 10**8)] == [1, 1, 2, 3, 3, 100]
    assert [blocks.wanted(Layout(0.25, 64), n) for n in (1, 10**6, 10**9)] == [64, 64, 178]


# --- growing batches ---------------------------------------------------------------------------------------


def test_growing_edges_are_the_published_ones():
    # e_k = n ((k + 1)/(M + 1))^(1/(1 − α)): squares at α = 1/2, cubes at α = 2/3
    assert blocks.growing_edges(2500, 4, 0.5) == (100, 400, 900, 1600, 2500)
    assert blocks.growing_edges(1000, 9, 2 / 3) == (1, 8, 27, 64, 125, 216, 343, 512, 729, 1000)
    # by hand: ln e_0 = ln 10⁶ − ln 21/0.49 = 13.815511 − 6.213310, so e_0 = 2002.6
    published = blocks.growing_edges(10**6, 20, 0.51)
    assert published[0] == 2002
    assert published[-1] == 10**6
    assert len(published) == 21


@settings(deadline=None)
@given(n=st.integers(1, 10**9), batches=st.integers(1, 40), alpha=st.floats(0.01, 0.95))
def test_growing_edges_end_with_the_last_update_and_leave_no_batch_empty(n, batches, alpha):
    edges = blocks.growing_edges(n, batches, alpha)
    assert edges[-1] == n
    assert edges[0] >= 1
    assert all(a < b for a, b in pairwise(edges))
    assert len(edges) <= batches + 1
    assert all(isinstance(e, int) for e in edges)


# --- storage -----------------------------------------------------------------------------------------------

LAYOUT = Layout(0.4, 3, (5, 40, 90))
UPDATES = 71


def saved():
    return blocks.to_arrays(walked(LAYOUT, UPDATES)[0])


@pytest.mark.thorough
@settings(max_examples=60, deadline=None)
@given(layout=LAYOUTS, updates=st.integers(0, 300))
def test_what_was_saved_comes_back_and_goes_on_as_if_nothing_had_happened(layout, updates):
    found, *_ = walked(layout, updates)
    again = blocks.from_arrays(blocks.to_arrays(found), layout, D, updates)
    assert again.layout == layout
    assert (again.length, blocks.next_mark(again)) == (found.length, blocks.next_mark(found))
    for name in ("sums", "edge_sums"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))


def test_nothing_is_saved_of_paths_that_are_not_cut():
    assert blocks.to_arrays(None) == {}


DAMAGE = {
    "no length": {"length": np.array(0)},
    "a negative length": {"length": np.array(-4)},
    "an endless length": {"length": np.array(1 << 62)},
    "a length that is no whole number": {"length": np.array(4.0)},
    "several lengths": {"length": np.array([4, 4])},
    "another length": {"length": np.array(16)},
    "half the length": {"length": np.array(4)},
    "a length that is no power of 2": {"length": np.array(5)},
    "a sum too few": {"sums": lambda a: a[:-1]},
    "a path too many": {"sums": lambda a: np.concatenate([a, a], axis=1)},
    "another number of coefficients": {"sums": lambda a: a[..., :1]},
    "an edge too few": {"edge_sums": lambda a: a[:-1]},
    "single precision": {"sums": lambda a: a.astype(np.float32)},
    "whole numbers": {"sums": lambda a: np.ones(a.shape, dtype=np.int64)},
    "not a number": {"sums": lambda a: np.where(np.arange(D) == 0, math.nan, a)},
    "an infinite edge": {"edge_sums": lambda a: a + math.inf},
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_blocks_are_refused(damage):
    arrays = saved()
    assert blocks.from_arrays(arrays, LAYOUT, D, UPDATES).length == int(arrays["blocks_length"])
    for name, value in DAMAGE[damage].items():
        key = f"blocks_{name}"
        arrays[key] = value(arrays[key]) if callable(value) else value
    with pytest.raises(ValueError, match=r"blocks|another plan"):
        blocks.from_arrays(arrays, LAYOUT, D, UPDATES)


def test_a_path_of_few_updates_has_not_been_cut_coarser():
    layout = Layout(0.4, 40)
    for updates in (0, 1, 19):
        arrays = blocks.to_arrays(walked(layout, updates)[0])
        assert blocks.from_arrays(arrays, layout, D, updates).length == 1
        coarse = {k: v[1::2] if v.ndim else np.array(2) for k, v in arrays.items()}
        with pytest.raises(ValueError, match="never was"):
            blocks.from_arrays(coarse, layout, D, updates)


def test_blocks_of_another_path_are_refused():
    arrays, length = saved(), int(saved()["blocks_length"])
    for layout, d, updates in (
        (LAYOUT, D, UPDATES + length),
        (LAYOUT, D, UPDATES - length),
        (LAYOUT, D + 1, UPDATES),
        (LAYOUT._replace(edges=(5, 40, 60)), D, UPDATES),
    ):
        with pytest.raises(ValueError, match=r"blocks of|another plan"):
            blocks.from_arrays(arrays, layout, d, updates)
