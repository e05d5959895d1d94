"""Sealing: the standards' vectors, another library's opening, and keys that must be refused."""

import hashlib

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from privreg_field.device import seal
from privreg_field.device.report import noise
from privreg_field.wire.wire import MessageError

SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)


def some(label, count):
    return hashlib.shake_256(label.encode()).digest(count)


# --- X25519 --------------------------------------------------------------------------------------------------

PRODUCTS = (
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
    (
        "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
        "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742",
    ),
)
"""RFC 7748, sections 5.2 and 6.1: scalar, point, product."""


@pytest.mark.parametrize("vector", PRODUCTS)
def test_products_of_the_standard(vector):
    scalar, point, product = map(bytes.fromhex, vector)
    assert seal.x25519(scalar, point) == product


def test_the_standards_product_of_a_hundred_steps():
    """Section 5.2's iteration; of its thousand steps another library says the first hundred."""
    k = u = ours = theirs = seal.BASE
    k, u = seal.x25519(k, u), k
    assert k.hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    for i in range(60):
        ours = seal.x25519(some(f"scalar {i}", 32), ours)
        point = X25519PublicKey.from_public_bytes(theirs)
        theirs = X25519PrivateKey.from_private_bytes(some(f"scalar {i}", 32)).exchange(point)
        assert ours == theirs


P = seal.P
SMALL = (
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    P - 1,
    P,
    P + 1,
)
"""Points of small order and their other encodings, of which the first bit that isn't read makes as many again."""


@pytest.mark.parametrize("point", [*SMALL, *(p + 2**255 for p in SMALL)])
def test_points_of_small_order_are_refused(point):
    key = point.to_bytes(32, "little")
    with pytest.raises(MessageError):
        seal.x25519(some("a scalar", 32), key)
    with pytest.raises(MessageError):
        seal.seal(b"a share", key, b"")


@pytest.mark.parametrize("count", [0, 31, 33])
def test_keys_of_other_lengths_are_refused(count):
    with pytest.raises(MessageError, match="32 bytes"):
        seal.seal(b"a share", bytes([9]) * count, b"")


# --- HKDF, AES and GCM ---------------------------------------------------------------------------------------

DERIVED = (
    (
        b"\x0b" * 22,
        bytes(range(13)),
        bytes(range(0xF0, 0xFA)),
        32,
        "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
    ),
    (
        b"\x0b" * 22,
        b"",
        b"",
        32,
        "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
    ),
)
"""RFC 5869, appendix A, cases 1 and 3: key, salt, info, bytes, and what comes of both steps."""


@pytest.mark.parametrize("vector", DERIVED)
def test_keys_of_the_standard_are_derived(vector):
    key, salt, info, count, first, second = vector
    assert seal.extract(salt, key).hex() == first
    assert seal.expand(seal.extract(salt, key), info, count).hex() == second[: 2 * count]


def test_a_block_of_the_standard():
    """FIPS 197, appendix B."""
    cipher = seal.Cipher(bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"))
    assert cipher.block(bytes.fromhex("3243f6a8885a308d313198a2e0370734")).hex() == "3925841d02dc09fbdc118597196a0b32"


LONG = (
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657"
    "ba637b391aafd255"
)
LONGER = (
    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac97"
    "3d58e091473f5985"
)
KEY, NONCE = "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888"
GCM = (
    ("00" * 16, "00" * 12, "", "", "", "58e2fccefa7e3061367f1d57a4e7455a"),
    ("00" * 16, "00" * 12, "00" * 16, "", "0388dace60b6a392f328c2b971b2fe78", "ab6e47d42cec13bdf53a67b21257bddf"),
    (KEY, NONCE, LONG, "", LONGER, "4d5c2af327cd64a62cf35abd2ba6fab4"),
    (KEY, NONCE, LONG[:-8], "feedfacedeadbeef" * 2 + "abaddad2", LONGER[:-8], "5bc94fbc3221a5db94fae95ae7121a47"),
)
"""The vectors of GCM's submission to NIST, cases 1 to 4: key, nonce, plaintext, further data, ciphertext, tag."""


@pytest.mark.parametrize("vector", GCM)
def test_the_ciphertexts_of_the_standard(vector):
    key, nonce, plain, more, text, tag = map(bytes.fromhex, vector)
    assert seal.encrypt(key, nonce, plain, more) == text + tag


def test_ciphertexts_of_all_lengths_are_another_librarys():
    for count in (*range(34), 255, 256, 4000):
        key, nonce, plain = some(f"key {count}", 16), some(f"nonce {count}", 12), some("plain", count)
        assert seal.encrypt(key, nonce, plain) == AESGCM(key).encrypt(nonce, plain, None)


# --- HPKE ----------------------------------------------------------------------------------------------------

INFO = "4f6465206f6e2061204772656369616e2055726e"
ONE_TIME, ENC = (
    "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736",
    "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
)
SECRET, PUBLIC = (
    "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
    "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
)
SHARED = "fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc"
SCHEDULE = ("4531685d41d65f03dc48f6b8302c05b0", "56d890e5accaaf011cff4b7d")
TEXT = "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
"""RFC 9180, appendix A.1.1, with its first ciphertext."""


def test_the_vector_of_the_standard():
    own, info = bytes.fromhex(ONE_TIME), bytes.fromhex(INFO)
    assert seal.x25519(own, seal.BASE).hex() == ENC
    enc, shared = seal.encapsulated(bytes.fromhex(PUBLIC), own)
    assert (enc.hex(), shared.hex()) == (ENC, SHARED)
    key, nonce = seal.schedule(shared, info)
    assert (key.hex(), nonce.hex()) == SCHEDULE
    plain, more = b"Beauty is truth, truth beauty", b"Count-0"
    assert seal.encrypt(key, nonce, plain, more).hex() == TEXT
    # a message to the same keys: its one-time key and ciphertext are the vector's, its tag is of no further data
    sealed = seal.seal(plain, bytes.fromhex(PUBLIC), info, lambda count: own[:count])
    assert sealed[: -seal.TAG].hex() == ENC + TEXT[: 2 * len(plain)]
    assert SUITE.decrypt(sealed, X25519PrivateKey.from_private_bytes(bytes.fromhex(SECRET)), info=info) == plain


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 480, 4000])
def test_another_library_opens_what_is_sealed(count):
    secret = X25519PrivateKey.generate()
    key, plain = secret.public_key().public_bytes_raw(), some("plain", count)
    sealed = seal.seal(plain, key, b"to b")
    assert len(sealed) == count + 48
    assert SUITE.decrypt(sealed, secret, info=b"to b") == plain
    assert seal.seal(plain, key, b"to b")[:32] != sealed[:32]  # of another one-time key
    with pytest.raises(InvalidTag):
        SUITE.decrypt(sealed, secret, info=b"to a")
    with pytest.raises(InvalidTag):
        SUITE.decrypt(sealed[:-1] + bytes([sealed[-1] ^ 1]), secret, info=b"to b")


def test_what_another_library_seals_is_what_is_sealed_here():
    """Its one-time key is unknown; the owner of the key finds the same shared secret."""
    secret = some("a secret", 32)
    public = X25519PrivateKey.from_private_bytes(secret).public_key()
    sealed = SUITE.encrypt(b"a share", public, info=b"to a")
    enc, key = sealed[:32], public.public_bytes_raw()
    root = seal._extract(seal._KEM, b"", b"eae_prk", seal.x25519(secret, enc))
    shared = seal._expand(seal._KEM, root, b"shared_secret", enc + key, 32)
    assert seal.encrypt(*seal.schedule(shared, b"to a"), b"a share") == sealed[32:]


def test_a_sealer_that_is_broken_is_found(monkeypatch):
    seal.check()
    monkeypatch.setattr(seal, "BYTES", seal.BYTES[::-1])
    with pytest.raises(noise.NoiseError, match="known-answer"):
        seal.check()


def test_without_randomness_nothing_is_sealed(monkeypatch):
    def none(count):
        raise OSError

    monkeypatch.setattr(noise.os, "urandom", none)
    with pytest.raises(noise.NoiseError):
        seal.seal(b"a share", bytes.fromhex(PUBLIC), b"")
