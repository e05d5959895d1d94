"""The cipher's words become exact normals, keys ratchet, and nothing is handed out twice."""

import pickle

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from privreg.privacy import ziggurat
from privreg.privacy.noise import NoiseStream, fresh_key, seeded_key

KEY = seeded_key(11)


def draw(stream, rows):
    out = []
    while rows:
        block = stream.peek()[:rows]
        out.append(block.copy())
        stream.advance(len(block))
        rows -= len(block)
    return np.concatenate(out)


def test_normals_follow_the_normal_law_in_body_and_tail():
    z = draw(NoiseStream(KEY, 8), 250_000).ravel()
    n = z.size
    assert stats.kstest(z, "norm").pvalue > 1e-4
    for cut in (1.0, 2.0, 3.0, 3.6541528853610088, 4.0, 4.5):
        expected = n * 2 * stats.norm.sf(cut)
        seen = np.sum(np.abs(z) > cut)
        assert stats.poisson.ppf(1e-5, expected) <= seen <= stats.poisson.ppf(1 - 1e-5, expected), cut
    for moment, value in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        spread = np.sqrt(stats.norm.moment(2 * moment) - value**2) / np.sqrt(n)
        assert abs(np.mean(z**moment) - value) < 4.5 * spread


def test_layers_cover_the_density_exactly():
    # area of every layer is the same; the wedge densities are those of the edges
    scale, accept, density = ziggurat._SCALE, ziggurat._ACCEPT, ziggurat._DENSITY
    edge = scale * 2.0**53
    areas = [edge[i] * (density[i + 1] - density[i]) for i in range(1, 256)]
    base = edge[1] * density[1] + np.sqrt(2 * np.pi) * stats.norm.sf(edge[1])
    np.testing.assert_allclose(areas, base, rtol=1e-8)
    np.testing.assert_allclose(accept[:-1] / 2.0**53, edge[1:] / edge[:-1], rtol=1e-12)


def test_signs_and_neighbours_are_independent():
    z = draw(NoiseStream(KEY, 4), 100_000)
    assert stats.binomtest(int((z > 0).sum()), z.size).pvalue > 1e-4
    assert abs(np.corrcoef(z.T)[np.triu_indices(4, 1)]).max() < 4.5 / np.sqrt(100_000)
    flat = z.ravel()
    assert abs(np.corrcoef(flat[:-1], flat[1:])[0, 1]) < 4.5 / np.sqrt(flat.size)


def test_words_come_from_the_cipher_and_the_next_key_is_never_a_word():
    stream = NoiseStream(KEY, 5)
    first = stream.peek().copy()
    cipher = Cipher(algorithms.AES(KEY), modes.CTR(bytes(16))).encryptor()
    next_key = cipher.update(bytes(32))
    assert stream.secret_state()["key"].tobytes() == next_key
    words = np.frombuffer(bytearray(cipher.update(bytes(8 * 400))), dtype=np.uint64)
    expected = np.empty(300)
    ziggurat.ziggurat(words, expected, 0)
    np.testing.assert_array_equal(first.ravel()[:300], expected)


def test_past_noise_cannot_be_rebuilt_from_the_saved_secret():
    stream = NoiseStream(KEY, 6)
    used = draw(stream, 1000)
    secret = stream.secret_state()
    later = draw(stream, 20_000)
    again = NoiseStream.from_secret_state(6, secret["key"], secret["rest"])
    np.testing.assert_array_equal(draw(again, 20_000), later)
    assert secret["key"].tobytes() != KEY
    assert not np.isin(used, secret["rest"]).any()


def test_the_same_normals_however_they_are_taken():
    a = draw(NoiseStream(KEY, 7), 30_000)
    stream = NoiseStream(KEY, 7)
    b = np.concatenate([draw(stream, k) for k in (1, 2, 9_000, 13, 20_984)])
    np.testing.assert_array_equal(a, b)
    assert np.unique(a).size == a.size


def test_ziggurat_goes_on_when_words_run_out():
    stream = Cipher(algorithms.AES(KEY), modes.CTR(bytes(16))).encryptor()
    words = np.frombuffer(bytearray(stream.update(bytes(80_000))), np.uint64)
    whole = np.empty(9_000)
    filled, used = ziggurat.ziggurat(words, whole, 0)
    assert filled == 9_000
    assert used <= 10_000
    short = np.empty(9_000)
    filled, used = ziggurat.ziggurat(words[:50], short, 0)
    assert 40 < filled < 50
    np.testing.assert_array_equal(short[:filled], whole[:filled])


def test_keys_differ_and_streams_do_not_pickle():
    assert fresh_key() != fresh_key()
    assert seeded_key(1) != seeded_key(2)
    with pytest.raises(TypeError, match="secret key"):
        pickle.dumps(NoiseStream(KEY, 2))
    assert KEY.hex() not in repr(NoiseStream(KEY, 2))


def test_two_fresh_streams_share_nothing():
    a, b = (draw(NoiseStream(fresh_key(), 3), 1000) for _ in range(2))
    assert not np.isin(a, b).any()
