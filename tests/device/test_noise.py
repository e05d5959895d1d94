"""The exact sampler of rounded normal noise: its law, its words, and what stops it."""

import hashlib
import math
import os

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

from privreg.audit.neighbours import audit
from privreg.protocol import lattice
from privreg.protocol.lattice import Mu
from privreg_field.device.report import answer, noise
from privreg_field.device.report.noise import NoiseError, Words, rounded_normal
from privreg_field.wire.study import Role

ALPHA = 1e-6
N = 4_000
"""Reports of each neighbour: the audit's limits then lie about 0.25 below what is true."""


def words_of(label):
    """Words that follow from a label, as random as SHA-256 is."""
    number = iter(range(1 << 30))

    def source(count):
        return b"".join(hashlib.sha256(b"%s %d" % (label, next(number))).digest() for _ in range(-(-count // 32)))[
            :count
        ]

    return Words(source)


def exact(edges):
    """Probabilities of the cells between these, and beyond, of a standard normal."""
    return np.diff(np.concatenate([[0.0], ndtr(edges), [1.0]]))


@pytest.mark.some(2)
@pytest.mark.parametrize(("bits", "n"), [(0, 12_000), (2, 12_000), (20, 12_000), (31, 8_000)])
def test_noise_has_the_exact_probabilities_of_cells(bits, n):
    words = words_of(b"cells %d" % bits)
    drawn = np.array([rounded_normal(bits, words) for _ in range(n)])
    scale = 2.0**bits
    steps = np.arange(-3, 3) + 0.5 if bits == 0 else np.linspace(-2.5, 2.5, 21)
    edges = np.unique(np.round(steps * scale - 0.5) + 0.5) / scale  # between whole numbers
    counts = np.histogram(drawn / scale, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
    expected = n * exact(edges)
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert chi2.sf(statistic, len(edges)) > 1e-4
    if bits >= 20:  # noise that is a tenth too narrow is told from it
        narrow = np.histogram(0.9 * drawn / scale, np.concatenate([[-np.inf], edges, [np.inf]]))[0]
        assert chi2.sf(float(((narrow - expected) ** 2 / expected).sum()), len(edges)) < ALPHA


def test_last_bits_of_noise_are_uniform():
    words = words_of(b"last bits")
    low = np.array([rounded_normal(20, words) for _ in range(8_000)]) & 15
    counts = np.bincount(low, minlength=16)
    assert chi2.sf(float(((counts - 500.0) ** 2 / 500.0).sum()), 15) > 1e-4


def test_the_same_words_give_the_same_noise_and_each_is_used_once():
    asked = []

    def source(count):
        asked.append(count)
        return hashlib.shake_256(b"%d" % len(asked)).digest(count)

    first = Words(source)
    a = [rounded_normal(20, first) for _ in range(500)]
    asked.clear()
    second = Words(source)
    b = [rounded_normal(20, second) for _ in range(500)]
    assert a == b
    assert len(set(a)) > 495
    assert 15 < sum(asked) / 4 / 500 < 21  # words a number: 17.5


def test_the_known_answer_is_known():
    noise.check()


@pytest.mark.parametrize("name", ["_by_half", "_by_fraction"])
def test_a_broken_sampler_is_noticed(monkeypatch, name):
    monkeypatch.setattr(noise, name, lambda *given: given[-1].word() % 5 != 0)
    with pytest.raises(NoiseError, match="known-answer"):
        noise.check()


@pytest.mark.parametrize("source", [lambda n: b"", lambda n: bytes(n - 1)])
def test_without_randomness_there_is_no_noise(source):
    with pytest.raises(NoiseError, match="no secure randomness"):
        rounded_normal(20, Words(source))


def test_a_system_without_randomness_is_refused(monkeypatch):
    def none(count):
        raise NotImplementedError

    monkeypatch.setattr(os, "urandom", none)
    with pytest.raises(NoiseError):
        noise.secret(16)
    with pytest.raises(NoiseError):
        Words(none).word()


def test_a_forked_process_gets_no_words(monkeypatch):
    words = words_of(b"fork")
    words.word()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(NoiseError, match="forked"):
        words.word()


def test_integers_below_a_limit_are_uniform():
    words = words_of(b"below")
    counts = np.bincount([words.below(6) for _ in range(6_000)], minlength=6)
    assert chi2.sf(float(((counts - 1000.0) ** 2 / 1000.0).sum()), 5) > 1e-4
    stream = Words(lambda n: (b"\xff\xff\xff\xff" + b"\x05\x00\x00\x00") * (n // 8))
    assert stream.below(3) == 2  # the word beyond the last multiple of 3 is left out


# --- the guarantee, tried ------------------------------------------------------------------------------------


def found(form, first, second, bits, n=N):
    """Audit of devices' reports, made for μ = 1 at the radius of 20 bits, whose noise has so many bits."""
    numbers = len(first)
    role = Role(form, numbers, lattice.radius(form, numbers, Mu(1, 1)), 1)
    words = words_of(form.encode())
    both = []
    for report in (first, second):
        a = answer.values(role, report)
        both.append(np.array([answer.randomised(a, role, bits, words) for _ in range(n)], dtype=float))
    direction = np.array(answer.values(role, second)) - np.array(answer.values(role, first))
    return audit(*both, alpha=ALPHA, direction=direction.astype(float))


FARTHEST = {
    lattice.BALL: ([1.0, 0.0], [-1.0, 0.0]),
    lattice.JOINT: ([1.0, 1.0], [-1.0, 0.0]),
    lattice.BOX: ([1.0, 1.0], [0.0, 0.0]),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("form", FARTHEST)
def test_the_farthest_reports_show_what_is_claimed_and_half_the_noise_is_caught(form):
    seen = found(form, *FARTHEST[form], lattice.BITS)
    assert 0.6 < seen.lower <= 1.0
    assert found(form, *FARTHEST[form], lattice.BITS - 1).lower > 1.0


@pytest.mark.thorough
def test_reports_of_moments_show_what_is_claimed_and_half_the_noise_is_caught():
    role = Role(lattice.MOMENTS, 3, lattice.radius(lattice.MOMENTS, 3, Mu(1, 1)), 1)
    a, b = (np.array(answer.values(role, u), dtype=float) for u in ([1.0, 0.0], [0.0, 1.0]))
    for bits, fine in ((lattice.BITS, True), (lattice.BITS - 1, False)):
        words = words_of(b"moments")
        both = [
            np.array([answer.randomised([int(v) for v in one], role, bits, words) for _ in range(N)], dtype=float)
            for one in (a, b)
        ]
        lower = audit(*both, alpha=ALPHA, direction=b - a).lower
        assert (0.6 < lower <= 1.0) if fine else lower > 1.0


def test_noise_that_is_clamped_is_rare():
    assert 2 * (1 - ndtr(lattice.CLAMP)) < 3e-9
    assert math.isclose(lattice.most(1, 20), 1 + 6 * 2**20)
