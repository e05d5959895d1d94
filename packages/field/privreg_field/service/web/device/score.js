/**
 * What a device makes of its row before noise: scores, numbers, directions, measures of fit.
 *
 * Sums go from the first number to the last. Nothing here throws: what is no number becomes 0, or 1/2 of a number in [0, 1]
 * that stands for an indicator.
 * @module
 */

const CAP = 5;
const TINY = 1e-290;
/** How far Σ u² of a direction may be from 1. */
export const NEAR_ONE = 2 ** -30;

/**
 * Sum of what is made of rows of a triangle's width, which come one after the other; empty if they don't fit.
 * @param {readonly number[]} rows @param {number} numbers @param {(row: number[]) => number[]} of
 */
export function overRows(rows, numbers, of) {
  const width = Math.floor((Math.floor(Math.sqrt(8 * numbers + 1)) - 1) / 2);
  if (!rows.length || rows.length % width || (width * (width + 1)) / 2 !== numbers) return [];
  const out = new Array(numbers).fill(0);
  for (let k = 0; k < rows.length; k += width) of(rows.slice(k, k + width)).forEach((v, j) => (out[j] += v));
  return out;
}

/** @param {number} x @param {number} low @param {number} high */
export const clipped = (x, low, high) => (x < low ? low : x > high ? high : x);

/** Σ a_j b_j over the shorter one's length. @param {readonly number[]} a @param {readonly number[]} b */
export function dot(a, b) {
  let out = 0;
  for (let j = 0; j < Math.min(a.length, b.length); j += 1) out += a[j] * b[j];
  return out;
}

/** Coordinates z = W x by the lower triangle's rows. @param {number[][]} rows @param {number[]} x */
export const mapped = (rows, x) => rows.map((row, j) => dot(row.slice(0, j + 1), x));

/** z_j = s_j x_j + t_j x_0 of a wide design. @param {number[][]} rows scales and shifts @param {number[]} x */
export const stretched = ([s, t], x) => x.map((v, j) => s[j] * v + t[j] * x[0]);

/** 1/‖z‖; 0 if z is too short, too long, or no row of numbers. @param {number[]} z */
function inverseLength(z) {
  const norm2 = dot(z, z);
  return norm2 > TINY && norm2 < Infinity ? 1 / Math.sqrt(norm2) : 0;
}

/** @param {number[]} v */
const zeros = (v) => v.map(() => 0);

/** @param {number} x */
const half = (x) => (Number.isNaN(x) ? 0.5 : x);

// --- scores -------------------------------------------------------------------------------------------------

/** Linear predictor beyond which the score of counts no longer changes, and above which its correction is a formula. */
const FARTHEST = 300, LARGE = 4;

/**
 * Clipped Pearson residual less its mean under the Poisson law, over the largest size; see `protocol/counts.py`.
 * @param {number} c @param {number} eta @param {number} y
 */
function ofCount(c, eta, y) {
  if (!(c > 0 && c < Infinity) || Number.isNaN(eta) || Number.isNaN(y)) return NaN;
  const at = clipped(eta, -FARTHEST, FARTHEST), root = Math.exp(0.5 * at), mean = root * root;
  const seen = clipped(y / root - root, -c, c);
  if (at > LARGE) {
    const a = (-c * Math.exp(-0.5 * c * c)) / (3 * Math.sqrt(2 * Math.PI) * root);
    return (a - seen) / (c + Math.abs(a));
  }
  let a = 0, total = 0, p = Math.exp(-mean);
  const last = mean + Math.min(c * root, 8 * root + 16);
  for (let k = 0; k <= last; k += 1) {
    a += clipped((k - mean) / root, -c, c) * p;
    total += p;
    p *= mean / (k + 1);
  }
  a += c * (1 - total);
  return (a - seen) / (c + Math.abs(a));
}

/**
 * Probability less the response, of a hazard; over the larger side if b is not 0.
 * @param {number} b @param {number} hazard @param {number} y
 */
function ofHazard(b, hazard, y) {
  const share = -Math.expm1(-hazard), rest = Math.exp(-hazard);
  return ((1 - y) * share - y * rest) / (b ? Math.max(share, rest) : 1);
}

/** Log-odds at the logarithm of a hazard. @param {number} eta */
function oddsOfHazard(eta) {
  const hazard = Math.exp(clipped(eta, -700, 700));
  return hazard + Math.log(-Math.expm1(-hazard));
}

/**
 * Number whose mean is 0 if the dispersion of counts up to `a` is `at`, and its slope: Equation (59) of docs/sums.md.
 * @param {number} a @param {number} at @param {number} eta @param {number} y
 */
export function extra(a, at, eta, y) {
  const mean = Math.exp(clipped(eta, -700, Math.log(a))), near = mean / (3 + mean);
  const [one, two] = [Math.log1p(-1 / (3 + mean)), Math.log(near)], [u, v] = [at * near, 3 * at * near];
  const [first, second] = [u, v].map((x) => Math.exp((1 / at + 1) * Math.log1p(x)));
  const apart = (/** @type {number} */ count) => (second * Math.exp(count * two)) / 3 - first * Math.exp(count * one) + 2 / 3;
  const rise = near * (((1 + v) * Math.log1p(v)) / v - ((1 + u) * Math.log1p(u)) / u);
  const peak = Math.log((two * second) / (3 * one * first)) / (one - two);
  const most = Math.max(Math.abs(apart(0)), Math.abs(apart(Math.max(peak, 0))), 2 / 3);
  return [apart(y) / most, rise / most];
}

/** Density of a standard normal. @param {number} v */
const density = (v) => Math.exp(-0.5 * v * v) / Math.sqrt(2 * Math.PI);

/** Probability that a standard normal is below v, of −2 at least: φ(v) (v + v³/3 + v⁵/15 + …) beyond a half. @param {number} v */
function normal(v) {
  let term = v, sum = v;
  for (let k = 3; v < 8 && Math.abs(term) > 1e-17 * Math.abs(sum); k += 2) sum += term *= (v * v) / k;
  return v < 8 ? 0.5 + density(v) * sum : v >= 8 ? 1 : NaN;
}

/**
 * Score, slope, number of log σ, its slope, and slopes of both by log σ and η: Equation (62) of docs/sums.md.
 * @param {number} low @param {number} high @param {number} s @param {number} eta @param {number} y
 */
export function tobit(low, high, s, eta, y) {
  const k = 1.345, least = 0.7101645482690486, u = (y - eta) / s, apart = k * k - least;
  if (low < y && y < high) {
    const inside = Math.abs(u) < k ? 1 : 0;
    const far = inside ? 0 : Math.sign(-u), number = (Math.min(u * u, k * k) - least) / apart;
    return [-clipped(u / k, -1, 1), inside, number, (inside * u * u) / (k * k), far, (-u * inside) / k];
  }
  const side = y <= low ? 1 : -1, cut = (side > 0 ? low - eta : eta - high) / s;
  const inner = clipped(cut, -k, k), tail = normal(-k), below = normal(Math.max(cut, -k));
  const more = Math.max(below - normal(inner), 0);
  const mean = (k * (more - tail) + density(k) - density(inner)) / below;
  const square = (k * k * (more + tail) + normal(inner) - inner * density(inner) - tail - k * density(k)) / below;
  const hazard = cut > -k ? density(cut) / below : 0, steep = hazard * (inner - mean), rise = hazard * (inner * inner - square);
  const own = [(-side * mean) / k, steep, (square - least) / apart];
  return [...own, (0.5 * cut * rise) / (k * k), (side * (cut * steep - mean)) / k, (-0.5 * side * rise) / k];
}

/**
 * Scalar score over its bound, in [−1, 1], or no number.
 * @param {string} family @param {number} a @param {number} b @param {number} c threshold
 * @param {number} eta @param {number} y
 */
export function unit(family, a, b, c, eta, y) {
  const side = 2 * y - 1;
  switch (family) {
    case "huber":
      return -clipped((y - eta) / c, -1, 1);
    case "expectile": {
      const r = (y - eta) / c;
      return (-(r >= 0 ? a : 1 - a) / b) * clipped(r, -1, 1);
    }
    case "quantile": {
      const r = y - eta;
      return r >= 0 ? -a / b : r < 0 ? (1 - a) / b : NaN;
    }
    case "ordered":
    case "logistic": {
      const e = Math.exp(-Math.abs(eta));
      return (eta >= 0 ? 1 / (1 + e) : e / (1 + e)) - y;
    }
    case "balanced": {
      const e = Math.exp(-Math.abs(eta));
      return eta >= 0 ? 1 - y - (1 - (1 - y)) * e : -(y - (1 - y) * e);
    }
    case "cloglog":
      return ofHazard(b, Math.exp(eta), y);
    case "poisson": {
      if (b) return ((eta > Math.log(a) ? a : Math.exp(eta)) - y) / a;
      if (eta > Math.log(0.5 * a)) return 1 - y * Math.exp(-eta);
      const mean = Math.exp(eta);
      return (mean - y) / (a - mean);
    }
    case "negative_binomial": {
      const mean = eta > Math.log(a) ? a : Math.exp(eta);
      return (mean - y) * ((1 + c * b) / ((1 + c * Math.max(mean, b)) * a));
    }
    case "tobit":
      return tobit(a, b, c, eta, y)[0];
    case "robust_poisson":
      return ofCount(c, eta, y);
    case "hinge": {
      const margin = side * eta;
      return margin < 1 ? -side : margin >= 1 ? 0 : NaN;
    }
    case "smoothed_hinge":
      return -side * clipped((1 - side * eta) / a, 0, 1);
    case "squared":
      return (clipped(eta, a, b) - clipped(y, a, b)) / (b - a);
    default:
      return NaN;
  }
}

/**
 * Number in [0, 1] that a joint report carries; 0 of one who has nothing to tell.
 * @param {string} family @param {number} a @param {number} b @param {number} c @param {number} eta @param {number} y
 */
export function number(family, a, b, c, eta, y) {
  if (Number.isNaN(eta) || Number.isNaN(y)) return 0;
  if (["huber", "expectile", "quantile"].includes(family)) return Math.abs(y - eta) <= c ? 1 : 0;
  if (!["hinge", "smoothed_hinge"].includes(family)) return clipped(0.5 * c, 0, 1);
  const rise = 0.5 * (unit(family, a, b, 1, eta + c, y) - unit(family, a, b, 1, eta - c, y));
  return rise > 0 ? Math.min(rise, 1) : 0;
}

/**
 * ψ z/‖z‖, of length at most 1; zeros where ψ or the row can't be used.
 * @param {string} family @param {number} a @param {number} b @param {number} c
 * @param {number} eta @param {number} y @param {number[]} z
 */
export function weighted(family, a, b, c, eta, y, z) {
  const inverse = inverseLength(z), size = unit(family, a, b, c, eta, y) * inverse;
  if (!Number.isFinite(size) || size === 0) return zeros(z);
  const factor = clipped(size, -inverse, inverse);
  return z.map((v) => factor * v);
}

/** Linear predictor of each block. @param {number[]} theta @param {number[]} z */
const predicted = (theta, z) =>
  Array.from({ length: Math.floor(theta.length / z.length) }, (_, k) =>
    dot(z, theta.slice(k * z.length, (k + 1) * z.length)));

/** @param {number[]} etas @param {number} y */
const isClass = (etas, y) =>
  !etas.some(Number.isNaN) && y >= 0 && y <= etas.length - 1 && y === Math.floor(y);

/**
 * Balanced multinomial score of classes k ≥ 1 times z/‖z‖: (π − e_y)/max_k ‖π − e_k‖ for each.
 * @param {number[]} theta @param {number[]} z @param {number} y class
 */
export function classes(theta, z, y) {
  const etas = [0, ...predicted(theta, z)];
  if (!isClass(etas, y)) return zeros(theta);
  const top = Math.max(...etas);
  let shares = etas.map((e) => Math.exp(e - top));
  let total = 0;
  for (const share of shares) total += share;
  shares = shares.slice(1).map((share) => share / total);
  const squares = dot(shares, shares);
  const scale = inverseLength(z) / Math.sqrt(Math.max(squares, ...shares.map((s) => squares + 1 - 2 * s)));
  const out = shares.flatMap((share, k) => {
    const r = scale * (share - (y === k + 1 ? 1 : 0));
    return z.map((v) => (r !== 0 ? r * v : 0));
  });
  return out.every(Number.isFinite) ? out : zeros(theta);
}

// --- what is told of covariates -----------------------------------------------------------------------------

/** u = z/‖z‖; zeros unless its length comes out as 1. @param {number[]} z */
export function direction(z) {
  const inverse = inverseLength(z);
  const u = inverse ? z.map((v) => v * inverse) : zeros(z);
  return Math.abs(dot(u, u) - 1) <= NEAR_ONE ? u : zeros(z);
}

/** Lower triangle of u uᵀ, off-diagonal entries times √2. @param {readonly number[]} u */
export function outer(u) {
  const root = Math.sqrt(2);
  return u.flatMap((v, j) => u.slice(0, j + 1).map((w, m) => v * w * (m < j ? root : 1)));
}

/** (1 + t)/2 of each column, then t² of each, t = x/edge in [−1, 1]. @param {number[]} x @param {number[]} edges */
export function meansAndSquares(x, edges) {
  const v = x.map((a, j) => clipped(a / edges[j], -1, 1));
  return [...v.map((a) => half(0.5 + 0.5 * a)), ...v.map((a) => half(a * a))];
}

/** Whether each number lies above its threshold. @param {number[]} x @param {number[]} thresholds */
export const above = (x, thresholds) => x.map((a, j) => (Number.isNaN(a) ? 0.5 : a > thresholds[j] ? 1 : 0));

// --- how well a state predicts ------------------------------------------------------------------------------

/**
 * What a record tells of how well its predictors do, in [0, 1].
 * @param {{family: string, residual: number, spread: number, centre: number, yMax: number, silent: boolean}} gauge
 * @param {number[]} etas @param {number} y
 */
export function gauged(gauge, etas, y) {
  const out = measures(gauge, etas, y);
  if (!gauge.silent) return out.map(half);
  return out.some(Number.isNaN) ? [...zeros(out), 0] : [...out, 1];
}

/** @param {any} gauge @param {number[]} etas @param {number} y @returns {number[]} */
function measures(gauge, etas, y) {
  const eta = etas[0];
  switch (gauge.family) {
    case "huber":
    case "squared": {
      const r = clipped((y - eta) / gauge.residual, -1, 1);
      const apart = clipped((y - gauge.centre) / gauge.spread, -1, 1);
      return [r * r, apart * apart, 0.5 + 0.5 * apart];
    }
    case "expectile":
    case "quantile":
      return [Number.isNaN(y - eta) ? NaN : y < eta ? 1 : 0];
    case "poisson":
    case "robust_poisson":
    case "negative_binomial": {
      const mean = Math.exp(eta < 700 || Number.isNaN(eta) ? eta : 700);
      const own = y > 0 ? y * Math.log(y > 1e-300 ? y : 1e-300) : 0;
      const deviance = 2 * (own - y * eta - (y - mean));
      const rate = clipped(mean / gauge.yMax, 0, 1), share = clipped(y / gauge.yMax, 0, 1);
      return [clipped(deviance / (2 * CAP), 0, 1), share, rate + 0 * y];
    }
    case "hinge":
    case "smoothed_hinge": {
      const margin = (2 * y - 1) * eta;
      const right = Number.isNaN(margin) ? NaN : margin > 0 ? 1 : 0;
      return [clipped((margin >= 1 ? 0 : 1 - margin) / CAP, 0, 1), right];
    }
    default: {
      const full = [0, ...(gauge.family === "cloglog" ? etas.map(oddsOfHazard) : etas)];
      if (!isClass(full, y)) return new Array(full.length + 1).fill(NaN);
      const top = Math.max(...full);
      let total = 0;
      for (const e of full) total += Math.exp(e - top);
      const loss = -(full[y] - top - Math.log(total));
      const right = full.indexOf(top) === y ? 1 : 0;
      return [clipped(loss / CAP, 0, 1), right, ...etas.map((_, k) => (y === k + 1 ? 1 : 0))];
    }
  }
}

export { predicted };
