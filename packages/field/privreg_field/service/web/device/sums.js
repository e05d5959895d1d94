/**
 * What studies with two collectors have beside: the collectors, what a report is made of, and what a state asks.
 * @module
 */

import { invitation } from "./client.js";
import * as lattice from "./lattice.js";
import { Record, need, same } from "./wire.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {"clamping" | "location" | "moments" | "approach" | "closing" | "main" | "table"} RoleName */
/** @typedef {{name: string, url: string, contact: string, key: Uint8Array, seal: Uint8Array}} Collector */
/**
 * @typedef {object} Sums
 * @property {number[]} shares squared norms of score, slope, squared score, score beyond the threshold, scale number
 * @property {number} ratio
 * @property {boolean} scaled
 * @property {number} top
 * @property {number} fixed
 * @property {number[]} lows
 * @property {number[]} highs
 * @property {number} yLow
 * @property {number} yHigh
 * @property {number[]} numbers
 * @property {boolean} binary
 * @property {number} rate of a log link the offset at which second moments have counts
 * @property {number[][]} cuts what a row has at each cut point of levels in order, or in each interval, beyond the first
 * @property {number[]} edges ends of these intervals of time, from 0 on
 */
/**
 * @typedef {object} SumAsk
 * @property {RoleName} role
 * @property {number} below
 * @property {number[][]} rows
 * @property {number[]} theta
 * @property {number} yCentre
 * @property {number} scale
 * @property {number} window
 * @property {number} ball
 * @property {number} reach length of covariates beyond which a record's weight falls
 * @property {number} radius what a report's norm of 1 is in whole numbers
 * @property {number} most of hazards the cumulative one up to which people are followed
 */

/** @type {readonly RoleName[]} */
export const ROLES = ["clamping", "location", "moments", "approach", "closing", "main"];
/** Of collectors, by their place in the plan. */
export const LETTERS = ["a", "b"];
/** Of what plans and states say of sums. */
const FORMAT = 3;
/** Of the length L and of slopes: products of smaller ones would lose digits. */
const LEAST = 2 ** -60;
/** By which t² is multiplied beside t. */
export const SQUARED = 1.665;

/** Cumulative hazard from which on its weight falls to 0 over the last two: (54). */
export const FALLS = 2;
/** Squared norms of scores whose reports are closer than any of norm 1, and their largest squared distance over 10,000. @type {[boolean, number[], number][]} */
const APART = [
  [true, [0.455, 0.455, 0.046, 0.015, 0.0232], 24278], [true, [0.54, 0.275, 0.1, 0.02, 0.052], 27350],
  [true, [0.47, 0.455, 0.046, 0, 0.0232], 24510], [true, [0.56, 0.275, 0.1, 0, 0.052], 27750],
  [false, [0.48, 0.32, 0.2, 0, 0], 22400],
];
const LOGISTIC = [0.83, 0.5, 0.17, 0, 0];
/** The same of logistic scores, up to a squared length of the coefficients times that of a row. */
const ODDS = [
  [0.25, 16215], [1, 17169], [2.25, 17964], [4, 18765], [6.25, 19613], [9, 20501], [12.25, 21404], [16, 22295],
  [20.25, 23152], [25, 23957], [30.25, 24701], [36, 25379], [49, 26545], [64, 27487], [100, 28866],
  [144, 29795], [256, 30924], [400, 31559], [900, 32324], [Infinity, 33266],
];
export const MOST_NUMBERS = 5900;
export const FAMILIES = ["huber", "expectile", "quantile", "squared", "logistic", "ordered", "poisson", "negative_binomial", "tobit", "hazards"];
const WRONG = "what the plan says of its two collectors can't be right.";

/** The two collectors of a plan. @param {Record} record @param {Uint8Array[]} keys @returns {Collector[]} */
export function readCollectors(record, keys) {
  const out = record.items("collectors", 2).map((one) => {
    const each = new Record(one, "a collector");
    const name = each.text("name", 200), url = each.text("url", 500), contact = each.text("contact", 1000);
    const made = { name, url, contact, key: each.binary("key", 32), seal: each.binary("seal", 32) };
    each.done();
    need(/^https?:\/\/[^/?#]/.test(url) && !/[?#]/.test(url) && URL.canParse(url), WRONG);
    return made;
  });
  const [a, b] = out, apart = a.name !== b.name && a.url !== b.url && !same(a.key, b.key) && !same(a.seal, b.seal);
  need(apart, "the plan's two collectors are one.");
  need(keys.length === 2 && out.every((c, i) => same(c.key, keys[i])), WRONG);
  return out;
}

/** @param {Record} record @param {number} d @returns {Sums} */
export function readSums(record, d) {
  const of = record.object("sums");
  need(of.left.has("format") && of.integer("format", 1, FORMAT) === FORMAT, "the plan is of two collectors of an earlier version of privreg.");
  const out = {
    shares: of.reals("shares", LOGISTIC.length), ratio: of.real("ratio"), scaled: of.flag("scaled"), top: of.real("top"),
    fixed: of.real("fixed"), lows: of.reals("lows", d), highs: of.reals("highs", d),
    yLow: of.real("y_low"), yHigh: of.real("y_high"), numbers: of.integers("numbers", 0, d - 1), binary: of.flag("binary"),
    rate: of.real("rate"),
    edges: of.left.has("edges") ? of.reals("edges") : [],
    cuts: of.left.has("cuts") ? of.items("cuts", undefined, 49).map((row) => new Record(new Map([["row", row]]), "'cuts' of 'sums'").reals("row", d)) : [],
  };
  of.done();
  need(!out.edges.length || (out.edges.length === out.cuts.length + 1 && out.edges.every((v, k) => (k ? v > out.edges[k - 1] : v === 0))), WRONG);
  need(Math.min(...out.shares) >= 0 && Math.min(out.ratio, out.fixed) > 0 && out.top >= LEAST && out.yLow < out.yHigh, WRONG);
  need(out.lows.every((v, j) => v <= out.highs[j]) && new Set(out.numbers).size === out.numbers.length, WRONG);
  return out;
}

/** Numbers in a report of a role, and its form. @param {Plan} plan @param {string} role @returns {[number, import("./lattice.js").Form]} */
export function shape(plan, role) {
  const d = plan.design.length, { shares, scaled, numbers, binary, cuts, edges } = /** @type {Sums} */ (plan.sums);
  if (role === "clamping") return [plan.clamping.length + 1, "switches"];
  if (edges.length && role === "location") return [2 * (numbers.length + Number(!binary) + cuts.length), "unit"];
  if (edges.length && role === "moments") return [(d * (d + 1)) / 2, "psd"];
  if (role === "location") return [2 * (numbers.length + Number(!binary)) + Number(cuts.length > 0), "unit"];
  if (role === "moments") return [((d + 1) * (d + 2)) / 2, "psd"];
  return [d * (1 + 2 * Number(shares[3] > 0)) + d * (d + 1) + Number(scaled) * (d + 3), "unit"];
}

/**
 * Largest squared distance of two reports of norm 1 at most, as a fraction: to a state, or to any.
 * @param {Plan} plan @param {string} role @param {{theta: number[], reach: number}} [ask]
 */
export function distance2({ sums, family, offset }, role, ask) {
  const { shares, scaled, numbers, binary, cuts } = /** @type {Sums} */ (sums), each = 3772225n, n = BigInt(numbers.length + Number(!binary));
  if (family === "hazards" && role === "location") return [(4n * n + 3n) * 1000000n, n * each + 2000000n];
  if (role === "location") {
    const [far, whole] = [4000000n, each].map((v) => v * n);
    const one = cuts.length ? 1000000n : 0n;
    return [one && far < whole + one ? whole + one : far, whole + one];
  }
  if (!["approach", "closing", "main"].includes(role)) return [2n, 1n];
  const longest2 = ask && offset === null ? ask.theta.reduce((n, v) => n + v * v, 0) * (ask.reach * ask.reach) : Infinity;
  const is = (/** @type {number[]} */ own) => own.every((v, i) => v === shares[i]);
  if (family === "hazards" && is(APART[4][1])) return [64n, 25n];
  if (cuts.length > 1 || family === "hazards") return [4n, 1n];
  // of Tobit as of scores without a part beyond the threshold: (63)
  let most = family === "tobit" && scaled && is(APART[0][1]) ? APART[2][2] : family === "tobit" && scaled && is(APART[1][1]) ? APART[3][2]
    : APART.find(([of, own]) => family !== "logistic" && of === scaled && is(own))?.[2] ?? 40000;
  if (family === "logistic" && !scaled && is(LOGISTIC)) most = /** @type {number[]} */ (ODDS.find(([k]) => longest2 <= k))[1];
  return [BigInt(most), 10000n];
}

/** What a state asks. @param {Record} record @param {Plan} plan @returns {SumAsk} */
export function readSumAsk(record, plan) {
  const role = record.choice("role", [...ROLES, "table"]), d = plan.design.length;
  need(plan.roles.has(role), "the state asks for a role that the plan doesn't describe.");
  const flat = record.reals("rows", d * d);
  const out = {
    role, rows: Array.from({ length: d }, (_, j) => flat.slice(j * d, (j + 1) * d)), theta: record.reals("theta", d),
    below: record.integer("below", 2 ** 32, 2 ** 32), yCentre: record.real("y_centre"),
    scale: record.real("scale"), window: record.real("window"), ball: record.real("ball"), reach: record.real("reach"),
    radius: record.integer("radius", 1, 2 ** 30 - 1), most: record.left.has("most") ? record.real("most") : 0,
  };
  record.done();
  need(Math.min(out.scale, out.window, out.ball) > 0 && out.reach >= LEAST, "the state's numbers must be positive.");
  need(out.most >= LEAST === Boolean(plan.sums?.edges.length), "the state's cumulative hazard is of hazards alone.");
  const { form, numbers } = /** @type {import("./plan.js").Role} */ (plan.roles.get(role));
  const square = role === "table" ? undefined : distance2(plan, role, out);
  need(lattice.isPrivate(form, numbers, out.radius, plan.mu, plan.bits, square), "the radius of the state doesn't keep the budget mu: the noise would be too small.");
  return out;
}

/** Where shares are posted, by place of the collector. @param {Plan} plan */
export const addresses = (plan) => plan.collectors.map(({ url }) =>
  `${invitation(`${url.replace(/\/+$/, "")}/v1/studies/${plan.study}`).base}${plan.path}/shares`);
