/**
 * Sealing of shares to a collector's key: HPKE in base mode, one message for each one-time key, by WebCrypto.
 *
 * DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM (RFC 9180), no additional data.
 * @module
 */

import { MissingError } from "./verify.js";
import { NoiseError } from "./noise.js";
import { bytes, hashOf, hexOf, joined, need, unbase } from "./wire.js";

const X25519 = { name: "X25519" };
const KEM = Uint8Array.of(...bytes("KEM"), 0, 32), SUITE = Uint8Array.of(...bytes("HPKE"), 0, 32, 0, 1, 0, 1);
const NOTHING = new Uint8Array();
/** SHA-256 of what `check` seals: the one of the device in Python. */
const KNOWN = "0862d177fc98acd90145970a82118c297537a6542fb195abe308c2fd022d0569";
const NO_KEY = "a key that shares are sealed to is no key: everybody could open them.";

/** HKDF's first step, and its second for 32 bytes at most. @param {Uint8Array} key @param {...Uint8Array} parts */
async function hmac(key, ...parts) {
  const how = { name: "HMAC", hash: "SHA-256" }, raw = /** @type {any} */ (key.length ? key : new Uint8Array(32));
  const held = await crypto.subtle.importKey("raw", raw, how, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", held, joined(...parts)));
}

/** @param {Uint8Array} suite @param {Uint8Array} salt @param {string} label @param {Uint8Array} key */
const extract = (suite, salt, label, key) => hmac(salt, bytes("HPKE-v1"), suite, bytes(label), key);

/** @param {Uint8Array} suite @param {Uint8Array} key @param {string} label @param {Uint8Array} info @param {number} count */
const expand = async (suite, key, label, info, count) =>
  (await hmac(key, Uint8Array.of(0, count), bytes("HPKE-v1"), suite, bytes(label), info, Uint8Array.of(1))).slice(0, count);

/** What a browser's X25519 gives, if it has it. @template T @param {() => Promise<T>} work @returns {Promise<T>} */
async function having(work) {
  try {
    return await work();
  } catch {
    throw new MissingError("this browser can't seal shares (X25519); Chrome and Edge can from version 133, Firefox from 130, Safari from 17.");
  }
}

/** A pair of one-time keys. @returns {Promise<CryptoKeyPair>} */
const pair = () => having(async () => /** @type {any} */ (await crypto.subtle.generateKey(X25519, false, ["deriveBits"])));

/** A known pair, for `check`. @returns {Promise<CryptoKeyPair>} */
const knownPair = () => having(async () => {
  const jwk = { kty: "OKP", crv: "X25519", ext: true, x: "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8" }, d = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
  const privateKey = await crypto.subtle.importKey("jwk", { ...jwk, d }, X25519, false, ["deriveBits"]);
  return { privateKey, publicKey: await crypto.subtle.importKey("jwk", jwk, X25519, true, []) };
});

/** Seal a known message with a known key; throws if it is not what it must be. */
export async function check() {
  const plain = Uint8Array.from({ length: 100 }, (_, i) => i), key = unbase("h5aMHBZCvQYA9q2Gm4j5LJYj0N_ETwHe_-Icmt09yl8", "a key");
  const sealed = await seal(plain, key, bytes("privreg known answer"), knownPair);
  if (hexOf(await hashOf(sealed)) !== KNOWN) throw new NoiseError("the sealing of shares fails its known-answer test.");
}

/**
 * Seal a message to a key.
 * @param {Uint8Array} plain
 * @param {Uint8Array} key the X25519 public key, 32 bytes, of whoever may open it
 * @param {Uint8Array} info what it is bound to: it opens with the same alone
 * @param {() => Promise<CryptoKeyPair>} [source] for tests: one-time keys
 * @returns {Promise<Uint8Array>} the one-time public key, the ciphertext and its tag
 */
export async function seal(plain, key, info, source = pair) {
  need(key.length === 32, NO_KEY);
  const own = await source(), enc = new Uint8Array(await crypto.subtle.exportKey("raw", own.publicKey));
  const theirs = await crypto.subtle.importKey("raw", /** @type {any} */ (key), X25519, false, []);
  const product = await crypto.subtle.deriveBits({ ...X25519, public: theirs }, own.privateKey, 256).catch(() => new ArrayBuffer(0));
  const dh = new Uint8Array(product);
  need(dh.some((v) => v), NO_KEY);
  const eae = await extract(KEM, NOTHING, "eae_prk", dh);
  const shared = await expand(KEM, eae, "shared_secret", joined(enc, key), 32);
  const about = joined(Uint8Array.of(0), await extract(SUITE, NOTHING, "psk_id_hash", NOTHING), await extract(SUITE, NOTHING, "info_hash", info));
  const root = await extract(SUITE, shared, "secret", NOTHING);
  const raw = /** @type {any} */ (await expand(SUITE, root, "key", about, 16)), iv = /** @type {any} */ (await expand(SUITE, root, "base_nonce", about, 12));
  const held = await crypto.subtle.importKey("raw", raw, "AES-GCM", false, ["encrypt"]);
  return joined(enc, new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv }, held, /** @type {any} */ (plain))));
}
