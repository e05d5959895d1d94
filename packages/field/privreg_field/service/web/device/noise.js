/**
 * Exact rounded normal noise: round(2^m Z) from random 32-bit words and comparisons of integers, nothing else.
 *
 * Karney (2016), Sampling exactly from the normal distribution, ACM TOMS 42, algorithm N. The same words give the same noise
 * in every language. Uniform numbers are arrays of digits in base 2³², of which more are drawn when they are compared.
 * @module
 */

import { bytes, hashOf, hexOf } from "./wire.js";

const WORD = 2 ** 32;
const BLOCK = 1024;
const NONE = "there is no secure randomness here.";
/** SHA-256 of the noise that `check` draws. */
const KNOWN = "522b5da16e21f1988271a9e18bbddf6b203fc5e937541063e2ef3615bd487dfe";

/** There is no secure randomness, or the sampler is broken. */
export class NoiseError extends Error {}

/** So many random bytes of the system. @param {number} count @returns {Uint8Array} */
export function secret(count) {
  try {
    const out = new Uint8Array(count);
    for (let at = 0; at === 0 || at < count; at += 65_536) crypto.getRandomValues(out.subarray(at, at + 65_536)); // its most
    return out;
  } catch {
    throw new NoiseError(NONE);
  }
}

/** Random 32-bit words, each handed out once. */
export class Words {
  /** @param {(count: number) => Uint8Array} [source] gives so many bytes; the system's secure randomness by default */
  constructor(source = secret) {
    this.source = source;
    /** @type {DataView | null} */
    this.block = null;
    this.at = 4 * BLOCK;
  }

  /** Next word, of four bytes, the least significant first. */
  word() {
    if (this.at === 4 * BLOCK) {
      const some = this.source(4 * BLOCK);
      if (!(some instanceof Uint8Array) || some.length !== 4 * BLOCK) throw new NoiseError(NONE);
      this.block = new DataView(some.buffer, some.byteOffset, some.length);
      this.at = 0;
    }
    const out = /** @type {DataView} */ (this.block).getUint32(this.at, true);
    this.block?.setUint32(this.at, 0);
    this.at += 4;
    return out;
  }

  /** Uniform integer from 0 to n − 1. @param {number} n */
  below(n) {
    const end = WORD - (WORD % n);
    for (;;) {
      const word = this.word();
      if (word < end) return word % n;
    }
  }
}

/** Whether a < b. @param {number[]} a @param {number[]} b @param {Words} words */
function less(a, b, words) {
  for (let i = 0; ; i += 1) {
    if (i === a.length) a.push(words.word());
    if (i === b.length) b.push(words.word());
    if (a[i] !== b[i]) return a[i] < b[i];
  }
}

/** True with probability exp(−1/2). @param {Words} words */
function byHalf(words) {
  let first = [words.word()];
  if (first[0] >= WORD / 2) return true;
  for (;;) {
    const second = [words.word()];
    if (!less(second, first, words)) return false;
    first = [words.word()];
    if (!less(first, second, words)) return true;
  }
}

/** True with probability exp(−x (2k + x)/(2k + 2)). @param {number} k @param {number[]} x @param {Words} words */
function byFraction(k, x, words) {
  let least = x, even = true;
  for (;;) {
    const z = [words.word()];
    if (!less(z, least, words)) return even;
    const f = words.below(2 * k + 2);
    if (f === 0 || (f === 1 && !less([words.word()], x, words))) return even;
    least = z;
    even = !even;
  }
}

/**
 * round(2^bits Z), Z standard normal, exactly.
 * @param {number} bits from 0 to 31
 * @param {Words} words
 */
export function roundedNormal(bits, words) {
  for (;;) {
    let k = 0;
    while (byHalf(words)) k += 1;
    let good = true;
    for (let i = k * (k - 1); good && i > 0; i -= 1) good = byHalf(words);
    if (!good) continue;
    const x = [words.word()];
    for (let i = 0; good && i <= k; i += 1) good = byFraction(k, x, words);
    if (!good) continue;
    const top = x[0] >>> (31 - bits); // the first bits + 1 of the fraction; nearest, as ties have probability 0
    const size = k * 2 ** bits + Math.floor((top + 1) / 2);
    return words.word() & 1 ? 0 - size : size;
  }
}

/** @type {Promise<void> | null} */
let checked = null;

/** Draw known noise from known words, once on a page; throws if it is not what it must be. */
export async function check() {
  secret(1);
  await (checked ??= answered());
}

async function answered() {
  const some = new Uint8Array(16 * 1024);
  for (let i = 0; i < some.length; i += 32) some.set(await hashOf(bytes(`privreg known answer ${i / 32}`)), i);
  let at = 0;
  const words = new Words((count) => some.slice(at, (at += count)));
  const drawn = [0, 8, 20, 24, 31].flatMap((bits) => Array.from({ length: 20 }, () => roundedNormal(bits, words)));
  const found = await hashOf(bytes(drawn.join(",")));
  if (hexOf(found) !== KNOWN) throw new NoiseError("the sampler of noise fails its known-answer test.");
}
