/**
 * Verification of Ed25519 signatures by WebCrypto, as strict as the Python device: keys of small order and encodings that
 * aren't the shortest are refused, whatever the browser does.
 * @module
 */

import { bytes, unbase } from "./wire.js";

/** The browser lacks what a device needs. */
export class MissingError extends Error {}

const P = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const EIGHTH = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
/** Second coordinates of the points of small order. */
const SMALL = [0n, 1n, P - 1n, EIGHTH, P - EIGHTH];

/** @param {Uint8Array} data least significant byte first */
const whole = (data) => data.reduceRight((out, v) => (out << 8n) | BigInt(v), 0n);

/**
 * Whether a signature over a message is the key's; false also for a key or a signature that is none.
 * @param {Uint8Array} key
 * @param {Uint8Array} message
 * @param {Uint8Array} signature
 */
export async function verify(key, message, signature) {
  if (key.length !== 32 || signature.length !== 64) return false;
  const y = whole(key) & (2n ** 255n - 1n);
  if (y >= P || SMALL.includes(y) || whole(signature.slice(32)) >= ORDER) return false;
  try {
    /** @type {any[]} */
    const [k, s, m] = [key, signature, message];
    const held = await crypto.subtle.importKey("raw", k, { name: "Ed25519" }, false, ["verify"]);
    return await crypto.subtle.verify({ name: "Ed25519" }, held, s, m);
  } catch {
    return false;
  }
}

/** A known answer: a public key, and its signature over "privreg". */
const KEY = "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w";
const SIGNATURE =
  "ugxCbH44iqRYxLdvicCpgAm28xubGfZP0ivKLfoFjNKUovUUMX6gjtNhsblcQL-1jZNmxni7HSkpsV8vQOtyBA";

/** Throws if this browser can't hash or verify; says what is missing. */
export async function check() {
  if (!globalThis.crypto?.subtle) {
    throw new MissingError("WebCrypto is missing: pages have it where they come by https:// or from this machine.");
  }
  const good = await verify(unbase(KEY, "a key"), bytes("privreg"), unbase(SIGNATURE, "a signature"));
  if (!good) {
    throw new MissingError(
      "this browser can't verify Ed25519 signatures; Chrome and Edge can from version 137, Firefox from 129, Safari from 17.",
    );
  }
}
