/**
 * What studies with two collectors have beside: the collectors, what a report is made of, and what a state asks.
 * @module
 */

import { invitation } from "./client.js";
import { Record, need, same } from "./wire.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {"clamping" | "location" | "moments" | "approach" | "closing" | "main" | "table"} RoleName */
/** @typedef {{name: string, url: string, contact: string, key: Uint8Array, seal: Uint8Array}} Collector */
/**
 * @typedef {object} Sums
 * @property {number[]} shares squared norms of score, slope, squared score, score beyond the threshold
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
 */

/** @type {readonly RoleName[]} */
export const ROLES = ["clamping", "location", "moments", "approach", "closing", "main"];
/** Of collectors, by their place in the plan. */
export const LETTERS = ["a", "b"];
/** Of what plans and states say of sums. */
const FORMAT = 2;
export const MOST_NUMBERS = 5900;
export const FAMILIES = ["huber", "expectile", "quantile", "squared", "logistic", "poisson"];
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
  need(of.left.has("format"), "the plan is of two collectors of an earlier version of privreg.");
  of.fixed("format", FORMAT);
  const out = {
    shares: of.reals("shares", 4), ratio: of.real("ratio"), scaled: of.flag("scaled"), top: of.real("top"),
    fixed: of.real("fixed"), lows: of.reals("lows", d), highs: of.reals("highs", d),
    yLow: of.real("y_low"), yHigh: of.real("y_high"), numbers: of.integers("numbers", 0, d - 1), binary: of.flag("binary"),
    rate: of.real("rate"),
  };
  of.done();
  need(Math.min(...out.shares) >= 0 && Math.min(out.ratio, out.top, out.fixed) > 0 && out.yLow < out.yHigh, WRONG);
  need(out.lows.every((v, j) => v <= out.highs[j]) && new Set(out.numbers).size === out.numbers.length, WRONG);
  return out;
}

/** Numbers in a report of a role, and its form. @param {Plan} plan @param {string} role @returns {[number, import("./lattice.js").Form]} */
export function shape(plan, role) {
  const d = plan.design.length, { shares, scaled, numbers, binary } = /** @type {Sums} */ (plan.sums);
  if (role === "clamping") return [plan.clamping.length + 1, "switches"];
  if (role === "location") return [2 * (numbers.length + Number(!binary)), "ball"];
  if (role === "moments") return [((d + 1) * (d + 2)) / 2, "psd"];
  return [d * (1 + 2 * Number(shares[3] > 0)) + d * (d + 1) + Number(scaled) * (d + 3), "ball"];
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
  };
  record.done();
  need(Math.min(out.scale, out.window, out.ball, out.reach) > 0, "the state's numbers must be positive.");
  return out;
}

/** Where shares are posted, by place of the collector. @param {Plan} plan */
export const addresses = (plan) => plan.collectors.map(({ url }) =>
  `${invitation(`${url.replace(/\/+$/, "")}/v1/studies/${plan.study}`).base}${plan.path}/shares`);
