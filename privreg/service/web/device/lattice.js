/**
 * Reports of whole numbers with rounded Gaussian noise: whether a radius keeps the budget, in integers alone.
 *
 * r = a + round(2^m Z), a an integer, is post-processing of the exact Gaussian mechanism: μ-GDP if two reports before noise
 * lie no farther apart than μ 2^m (Dong, Roth & Su 2022, Theorem 1 and Proposition 4).
 * @module
 */

/** @typedef {"ball" | "joint" | "moments" | "box"} Form */

/** @type {readonly Form[]} */
export const FORMS = ["ball", "joint", "moments", "box"];
/** m of version 1. */
export const BITS = 20;
/** A report's number is clamped to R + 6 · 2^m. */
export const CLAMP = 6;
const SLACK = 2n;
const LARGEST = 1 << 30;

/**
 * Whether reports of this form and radius are μ-GDP, μ = p/q. Distances: 2R (ball); √5 R (joint); √D R (box);
 * √2 R + 2√D + 2 (moments).
 * @param {Form} form
 * @param {number} numbers
 * @param {number} radius
 * @param {readonly number[]} mu p and q
 * @param {number} [bits]
 */
export function isPrivate(form, numbers, radius, mu, bits = BITS) {
  const all = [...mu, numbers, radius, bits];
  if (!all.every(Number.isSafeInteger) || Math.min(...mu, numbers, radius) < 1) return false;
  if (radius >= LARGEST || bits < 0 || bits >= 31) return false;
  const [p, q, n, r] = [...mu, numbers, radius].map(BigInt);
  const noise = p << BigInt(bits);
  if (form === "ball") return 2n * q * r <= noise;
  if (form === "joint") return numbers >= 2 && 5n * (q * r) ** 2n <= noise ** 2n;
  if (form === "box") return n * (q * r) ** 2n <= noise ** 2n;
  if (form !== "moments") return false;
  const rest = noise - SLACK * q; // √2 q R + 2 q √D ≤ rest, squared twice
  const square = rest ** 2n - q * q * (2n * r * r + 4n * n);
  return rest >= 0n && square >= 0n && 32n * n * (q * q * r) ** 2n <= square ** 2n;
}

/** Largest absolute value of a number of a report. @param {number} radius @param {number} [bits] */
export const most = (radius, bits = BITS) => radius + CLAMP * 2 ** bits;
