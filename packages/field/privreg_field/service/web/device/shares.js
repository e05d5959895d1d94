/**
 * Of a row, for two collectors: whole numbers, and two shares that add up to them modulo 2⁶⁴, sealed.
 *
 * What `whole` returns is in the set that the role's radius stands for, for any state. Equations by number are those of
 * the project's docs/sums.md; sums go from the first number to the last.
 * @module
 */

import { inside, rowOf, shortened, tableOf } from "./answer.js";
import * as lattice from "./lattice.js";
import { bodyOf } from "./messages.js";
import { secret } from "./noise.js";
import { clipped, dot, extra, overRows, tobit, unit } from "./score.js";
import { seal } from "./seal.js";
import { FALLS, LETTERS, SQUARED } from "./sums.js";
import { round } from "./trees.js";
import { base, bytes, joined } from "./wire.js";

export { check, seal } from "./seal.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plan.js").Role} Role */
/** @typedef {import("./sums.js").Sums} Sums */
/** @typedef {import("./sums.js").SumAsk} SumAsk */

// --- shares -------------------------------------------------------------------------------------------------

/** What a sealed share is bound to. @param {string} letter @param {Uint8Array} stateHash @param {import("./messages.js").Token} token */
export const shareInfo = (letter, stateHash, { key, id, mac }) => joined(bytes(`privreg/share/v1\0${letter}`), stateHash, Uint8Array.of(key), id, mac);

/**
 * The texts that are posted to a state, one for each collector. Nothing here throws because of what the row holds.
 * @param {Plan} plan @param {Uint8Array} planHash @param {number} state @param {Uint8Array} stateHash @param {SumAsk} ask
 * @param {import("./messages.js").Token} token @param {import("./answer.js").Answers} answers
 */
export async function shareBodies(plan, planHash, state, stateHash, ask, token, answers) {
  const role = { .../** @type {Role} */ (plan.roles.get(ask.role)), radius: ask.radius };
  let made = whole(role, []);
  try {
    made = plan.table.length ? tableOf(plan, answers) : whole(role, beforeShares(plan, ask, rowOf(plan, answers)));
  } catch {
    // nothing throws there; whatever did would send zeros, and not fail
  }
  return Promise.all(shares(made).map(async (share, k) => {
    const sealed = await seal(share, plan.collectors[k].seal, shareInfo(LETTERS[k], stateHash, token));
    return bodyOf(planHash, state, ask.role, token, { share: base(sealed) });
  }));
}

/** Two shares of integers, each alone uniform: (a − s) mod 2⁶⁴ and s, little-endian. @param {readonly number[]} a @param {(count: number) => Uint8Array} [source] */
export function shares(a, source = secret) {
  const second = source(8 * a.length), first = new DataView(new ArrayBuffer(8 * a.length));
  const words = new DataView(second.buffer, second.byteOffset, second.length);
  a.forEach((v, i) => first.setBigUint64(8 * i, BigInt.asUintN(64, BigInt(v) - words.getBigUint64(8 * i, true)), true));
  return [new Uint8Array(first.buffer), second];
}

// --- numbers ------------------------------------------------------------------------------------------------

const LEAST = 1e-300;
const MEDIAN = 0.6744897501960817;
const LINEAR = ["huber", "expectile", "quantile", "squared", "tobit"];

/** Entries of by · z zᵀ on and above the diagonal, √2 times those off it. @param {number[]} z @param {number} by */
const products = (z, by) => z.flatMap((u, j) => z.slice(j).map((v, k) => u * v * (k ? Math.SQRT2 : 1) * by));

/**
 * What a row says to a state, of norm 1 at most; of moments, a vector u whose products u uᵀ count.
 * @param {Plan} plan @param {SumAsk} ask @param {import("./answer.js").Row} row
 * @returns {number[]}
 */
export function beforeShares(plan, ask, row) {
  const sums = /** @type {Sums} */ (plan.sums), { role, rows, theta, yCentre, scale, ball } = ask;
  if (![...row.x, row.y, row.offset].every(Number.isFinite)) return [];
  if (sums.edges.length) return followed(sums, ask, row);
  if (sums.cuts.length && role !== "clamping") return atCuts(plan, sums, ask, row);
  let y = clipped(row.y, sums.yLow, sums.yHigh);
  const x = row.x.map((v, j) => clipped(v, sums.lows[j], sums.highs[j]));
  if (role === "clamping") return [1, ...row.clamped];
  if (["poisson", "negative_binomial"].includes(plan.family) && (role === "location" || role === "moments")) { // a rate
    y = clipped(y * Math.exp(sums.rate - row.offset), sums.yLow, sums.yHigh);
  }
  if (role === "location") {
    const told = sums.numbers.map((j) => [x[j], sums.lows[j], sums.highs[j]]);
    if (!sums.binary) told.push([y, sums.yLow, sums.yHigh]);
    const t = told.map(([v, a, b]) => clipped((v - 0.5 * (a + b)) / (0.5 * (b - a)), -1, 1));
    return [...t, ...t.map((v) => SQUARED * v * v)].map((v) => v / Math.sqrt(t.length * (1 + SQUARED * SQUARED)));
  }
  const z = rows.map((line) => dot(line, x));
  if (role !== "moments") return scores(plan, sums, ask, z, dot(z, theta) + row.offset, y);
  const less = y - (LINEAR.includes(plan.family) ? row.offset : 0);
  const u = [...z, (less - yCentre - dot(z, theta)) / scale];
  const factor = Math.min(1, ball / Math.max(dot(u, u), LEAST)) / ball;
  return u.map((v) => v * Math.sqrt(factor));
}

/** Numbers within ±1. @param {Sums} sums @param {number[]} x */
const placed = ({ lows, highs, numbers }, x) => numbers.map((j) => clipped((x[j] - 0.5 * (lows[j] + highs[j])) / (0.5 * (highs[j] - lows[j])), -1, 1));

/**
 * The same of levels in order: of rows at each cut point, with the response whether the level is above it, that have one
 * weight: Equations (26) and (51).
 * @param {Plan} plan @param {Sums} sums @param {SumAsk} ask @param {import("./answer.js").Row} row
 */
function atCuts(plan, sums, ask, row) {
  const part = 1 / sums.cuts.length, { reach } = ask, { top, shares: parts } = sums;
  /** @param {number[][]} each */
  const mean = (each) => each.reduce((/** @type {number[]} */ sum, v) => v.map((u, j) => (sum[j] ?? 0) + part * u), []);
  const held = sums.cuts.map((cut, k) => {
    const x = row.x.map((v, j) => clipped(v + cut[j], sums.lows[j], sums.highs[j]));
    const z = ask.rows.map((line) => dot(line, x));
    return { x, z, eta: dot(z, ask.theta) + row.offset, y: clipped(Number(row.y > k), sums.yLow, sums.yHigh) };
  });
  if (ask.role === "location") {
    const t = held.map(({ x }) => placed(sums, x));
    const root = Math.sqrt(sums.numbers.length * (1 + SQUARED * SQUARED) + 1);
    return mean(t.map((own) => [...own, ...own.map((v) => SQUARED * v * v), 1].map((v) => v / root)));
  }
  if (ask.role === "moments") {
    return held.flatMap(({ z, y }) => {
      const u = [...z, (y - ask.yCentre - dot(z, ask.theta)) / ask.scale];
      const factor = Math.min(1, ask.ball / Math.max(dot(u, u), LEAST)) / ask.ball;
      return u.map((v) => v * Math.sqrt(factor) * Math.sqrt(part));
    });
  }
  const weight = Math.min(1, (reach * reach) / Math.max(mean(held.map(({ z }) => [dot(z, z)]))[0], LEAST));
  const [p, q, m] = parts.map(Math.sqrt);
  const score = mean(held.map(({ z, eta, y }) => z.map((v) => v * ((clipped(unit("ordered", 0, 0, 1, eta, y), -1, 1) * weight) / reach))));
  const slopes = held.map(({ z, eta, y }) => products(z, clipped(slope("ordered", 0, 0, 1, eta, y, top), 0, top) * weight * (q / (top * (reach * reach)))));
  return [...score.map((v) => v * p), ...mean(slopes), ...products(score, m)];
}

/** The same of a person's intervals of time at risk: (54), (57) and (58). The response is the time, negative without an event, the offset that of entry.
 * @param {Sums} sums @param {SumAsk} ask @param {import("./answer.js").Row} row */
function followed(sums, { role, rows, theta, ball, reach, most }, row) {
  const { cuts, edges, lows, highs, numbers } = sums, time = Math.abs(row.y), start = row.offset, count = cuts.length, squared = numbers.length * (1 + SQUARED * SQUARED);
  const here = cuts.flatMap((cut, k) => {
    const end = edges[k + 1], risk = Math.min(time, end) - Math.max(start, edges[k]);
    if (!(start >= 0 && start < time && risk > 0)) return [];
    const x = row.x.map((v, j) => clipped(v + cut[j], lows[j], highs[j])), z = rows.map((line) => dot(line, x));
    const shift = Math.log(Math.max(risk, 1e-12 * edges[count])), long = Math.max(dot(z, z), LEAST);
    return [{ k, x, z, long, shift, eta: dot(z, theta) + shift, y: Number(row.y > 0 && edges[k] < time && time <= end) }];
  });
  if (!here.length || role === "clamping") return here.length ? [1, ...row.clamped] : [];
  if (role === "location") {
    const root = Math.sqrt(squared + 2), events = new Array(count).fill(0), times = new Array(count).fill(0);
    const t = here.map(({ x }) => placed(sums, x));
    const mean = (/** @type {(v: number) => number} */ of) => numbers.map((_, j) => t.reduce((sum, own) => sum + of(own[j]) / t.length, 0));
    for (const { k, y, shift } of here) [events[k], times[k]] = [y, clipped(Math.exp(shift) / (edges[k + 1] - edges[k]), 0, 1) / Math.sqrt(count)];
    return [...mean((v) => v), ...mean((v) => SQUARED * v * v), ...events, ...times].map((v) => v / root);
  }
  if (role === "moments") {
    const top = Math.max(...here.map(({ eta }) => eta)), each = here.map(({ eta }) => Math.exp(eta - top)), whole = Math.max(dot(each, each.map(() => 1)), 1);
    return here.flatMap(({ z, long }, k) => z.map((v) => v * Math.sqrt((Math.min(1, ball / long) / ball) * (each[k] / whole))));
  }
  const [p, q, m] = sums.shares.map(Math.sqrt), falls = most >= FALLS, upto = [0];
  here.forEach(({ eta }, k) => upto.push(Math.min(upto[k] + Math.exp(eta), most)));
  const counts = upto.map((v) => (falls ? clipped((most - v) / FALLS, 0, 1) : Number(v < most)));
  const known = falls ? upto.map((v, k) => v - 0.5 * FALLS * (1 - counts[k]) ** 2) : upto;
  // slopes are whole, with that by the weight, where it is between 0 and 1
  const steep = falls ? counts[here.length] + Math.max(...here.map(({ y }, k) => (counts[k + 1] % 1 ? y : 0))) / FALLS : 1;
  const half = 0.5 * (most + 1), top = falls ? (Math.max(most - FALLS, half) * Math.min(FALLS + 1, half)) / FALLS : most;
  const span = reach * (falls ? most - 0.5 * FALLS : Math.sqrt(1 + most * most));
  let total = theta.map(() => 0), rise = products(total, 0);
  here.forEach(({ z, long, y }, k) => {
    const weight = Math.min(1, (reach * reach) / long), by = ((known[k + 1] - known[k] - y * counts[k + 1]) * weight) / span;
    total = total.map((u, j) => u + z[j] * by);
    products(z, (upto[k + 1] - upto[k]) * steep * weight * (q / (top * (reach * reach)))).forEach((v, j) => { rise[j] += v; });
  });
  const norm = Math.max(Math.sqrt(dot(total, total)), 1);
  return [...total.map((v) => (v / norm) * p), ...rise, ...products(total.map((v) => v / norm), m)];
}

/** Score, slope and squared score with bounded weights, the score beyond c, and the scale: Equation (3).
 * @param {Plan} plan @param {Sums} sums @param {SumAsk} ask @param {number[]} z @param {number} eta @param {number} y */
function scores({ family, a, b }, sums, ask, z, eta, y) {
  const { reach } = ask, { top } = sums, learned = ["negative_binomial", "tobit"].includes(family);
  const c = learned ? ask.scale : sums.scaled ? sums.ratio * ask.scale : sums.fixed;
  const weight = Math.min(1, (reach * reach) / Math.max(dot(z, z), LEAST));
  const r = y - eta, beyond = sums.shares[3] > 0 && !learned && Math.abs(r) > c;
  // within these ends reports are as far from each other as `distance2` says
  const psi = clipped(unit(family, a, b, c, eta, y), -1, 1) * weight;
  const rise = clipped(slope(family, a, b, c, eta, y, top), 0, top) * weight * Number(!beyond);
  const [p, q, m, o, t] = sums.shares.map(Math.sqrt), own = z.map((v) => v * (psi / reach));
  const out = [...own.map((v) => v * p), ...products(z, rise * (q / (top * (reach * reach))))];
  if (!sums.scaled) return [...out, ...products(own, m)];
  if (learned) { // its slope, from −1 to 1, in place of a share
    const learned = family === "tobit" ? tobit(a, b, ask.scale, eta, y).slice(2) : extra(a, ask.scale, eta, y);
    const [number, rise, ...beside] = learned.map((v) => clipped(v, -1, 1));
    const by = beside.flatMap((v) => z.map((u) => u * (v * weight * (o / (Math.SQRT2 * reach)))));
    return [...out, ...products([...own, number], 0.5 * m), ...by, t * number, t * 0.5 * rise];
  }
  const far = Math.log(Math.max(Math.abs(r), LEAST) / (MEDIAN * ask.scale)) / ask.window;
  const number = clipped(far, -1, 1), inside = Math.abs(far) < 1;
  out.push(...products([...own, number], 0.5 * m));
  if (o > 0) { // no residual is beyond the threshold and in the middle
    const sign = beyond || !inside ? 0 : Math.sign(r);
    out.push(...own.map((v) => (beyond ? v * o : 0)), ...z.map((v) => v * (sign * weight * (o / reach))));
  }
  return [...out, t * number, t * (Number(inside) - 0.5)];
}

/** Slope of the unit score by the linear predictor, times c, in [0, top].
 * @param {string} family @param {number} a @param {number} b @param {number} c @param {number} eta @param {number} y @param {number} top */
function slope(family, a, b, c, eta, y, top) {
  const r = y - eta, near = Math.abs(r) <= c;
  if (family === "huber") return Number(near);
  if (family === "expectile") return near ? (r >= 0 ? a : 1 - a) / b : 0;
  if (family === "quantile") return near ? top : 0;
  if (family === "logistic" || family === "ordered") {
    const e = Math.exp(-Math.abs(eta));
    return e / ((1 + e) * (1 + e));
  }
  if (family === "squared") return a <= eta && eta <= b ? top : 0;
  if (family === "tobit") return tobit(a, b, c, eta, y)[1];
  const mean = Math.exp(Math.min(eta, 700));
  const steep = family === "negative_binomial" && mean >= b ? ((1 + c * y) * (1 + c * b)) / ((1 + c * mean) * (1 + c * mean)) : 1;
  return mean < a ? (mean * steep) / a : 0;
}

/** A report in whole numbers, in the set of its role's form. @param {Role} role @param {number[]} report anything @returns {number[]} */
export function whole({ form, numbers, radius }, report) {
  const nothing = new Array(numbers).fill(0);
  const size = Math.max(lattice.unitOfSums(form, numbers, radius), 0);
  if (form === "switches") {
    // whatever floating point makes of it, R/√D at most
    let one = Math.min(round(size / Math.sqrt(numbers)), radius);
    while (BigInt(numbers) * BigInt(one) ** 2n > BigInt(radius) ** 2n) one -= 1;
    return report.length === numbers ? report.map((v) => (Number.isNaN(v) ? 0 : round(one * Math.min(Math.max(v, 0), 1)) + 0)) : nothing;
  }
  if (form === "blocks") return nothing; // which `tables.whole` makes; anything else gives zeros
  const told = inside(report);
  const entries = form === "psd" ? overRows(told, numbers, (row) => products(row, 1)) : told;
  return entries.length === numbers ? shortened(entries.map((v) => round(v * size) + 0), radius + Math.floor(Math.sqrt(numbers) / 2) + 2) : nothing;
}
