/**
 * Reports of whole numbers with rounded Gaussian noise: whether a radius keeps the budget, in integers alone.
 *
 * r = a + round(2^m Z), a an integer, is post-processing of the exact Gaussian mechanism: μ-GDP if two reports before noise
 * lie no farther apart than μ 2^m (Dong, Roth & Su 2022, Theorem 1 and Proposition 4).
 * @module
 */

/** @typedef {"ball" | "joint" | "moments" | "box" | "unit" | "psd" | "switches" | "blocks"} Form */

/** @type {readonly Form[]} */
export const FORMS = ["ball", "joint", "moments", "box", "blocks"];
/** Of reports to two collectors, who add the noise to their sums. @type {readonly Form[]} */
export const SUM_FORMS = ["unit", "psd", "switches", "blocks"];
/** m of version 1. */
export const BITS = 20;
/** A report's number is clamped to R + 6 · 2^m. */
export const CLAMP = 6;
const SLACK = 2n;
const LARGEST = 1 << 30;
const MOST_BITS = 52;

/**
 * Whether reports of this form and radius are μ-GDP, μ = p/q. Distances: 2R (ball); √5 R (joint); √D R (box);
 * √2 R + 2√D + 2 (moments); R √(A/B) + √D + 2 (unit: A/B is `square`; psd: it is 2); R (switches, blocks).
 * @param {Form} form
 * @param {number} numbers
 * @param {number} radius
 * @param {readonly number[]} mu p and q
 * @param {number} [bits]
 * @param {readonly bigint[]} [square] A and B
 */
export function isPrivate(form, numbers, radius, mu, bits = BITS, square = [4n, 1n]) {
  const all = [...mu, numbers, radius, bits];
  if (!all.every(Number.isSafeInteger) || Math.min(...mu, numbers, radius) < 1) return false;
  if (radius >= LARGEST || bits < 0 || bits > MOST_BITS) return false;
  const [p, q, n, r] = [...mu, numbers, radius].map(BigInt);
  const noise = p << BigInt(bits);
  if (form === "ball") return 2n * q * r <= noise;
  if (form === "joint") return numbers >= 2 && 5n * (q * r) ** 2n <= noise ** 2n;
  if (form === "box") return n * (q * r) ** 2n <= noise ** 2n;
  if (form === "switches" || form === "blocks") return q * r <= noise;
  if (form !== "unit" && form !== "psd" && form !== "moments") return false;
  const [a, b] = form === "unit" ? square : [2n, 1n], rounded = form === "moments" ? 4n * n : n;
  const rest = noise - SLACK * q; // q R √(A/B) + q √D ≤ rest, squared twice
  const left = b * rest ** 2n - q * q * (a * r * r + b * rounded);
  return rest >= 0n && left >= 0n && 4n * a * b * rounded * (q * q * r) ** 2n <= left ** 2n;
}

/** m of two collectors' noise. @param {readonly number[]} mu p and q */
export function bitsOfSums([p, q]) {
  let m = 0;
  while (p * 2 ** m < q * 2 ** BITS) m += 1; // exact below 2⁵³
  return m;
}

/** What a report's norm of 1 is in lattice steps; of switches, that of all of them. @param {Form} form @param {number} numbers @param {number} radius */
export const unitOfSums = (form, numbers, radius) => (form === "switches" ? radius - 0.5 * Math.sqrt(numbers) : radius);

/** Largest absolute value of a number of a report. @param {number} radius @param {number} [bits] */
export const most = (radius, bits = BITS) => radius + CLAMP * 2 ** bits;
