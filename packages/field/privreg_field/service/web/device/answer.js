/**
 * One respondent's row: answers → columns → numbers in internal units → a report, clipped on the lattice, with noise.
 *
 * The clip makes the guarantee, for any state: what `values` returns lies in the set that the role's radius stands for.
 * @module
 */

import * as lattice from "./lattice.js";
import { askOf, groupOf, thetaOf } from "./messages.js";
import { roundedNormal } from "./noise.js";
import { used } from "./plan.js";
import * as score from "./score.js";
import { whole } from "./tables.js";
import { labelText, valueOf } from "./trees.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./plan.js").Role} Role */
/** @typedef {{x: number[], y: number, offset: number, clamped: number[]}} Row */
/** @typedef {Record<string, unknown>} Answers by column: numbers, strings, true or false */

const NUMBER = /^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?$/;
/** Characters of a text that is read as a number, at most. */
const LONGEST = 64;
/** Scores of responses that have units: moments are beside those less offsets, of other scores beside offsets. */
const SCALED = ["huber", "expectile", "quantile", "squared"];

/**
 * One answer: a number clamped to its bounds, or the place of a level; null if it is missing or can't be read.
 * @param {import("./trees.js").Column} column
 * @param {unknown} answer
 */
export function read(column, answer) {
  if (column.levels.length) {
    const whole = typeof answer === "number" ? Number.isInteger(answer) : ["string", "boolean"].includes(typeof answer);
    const place = whole ? column.levels.map(labelText).indexOf(labelText(answer)) : -1;
    return place < 0 ? null : place;
  }
  const value = plain(answer);
  return Number.isFinite(value) ? score.clipped(value, column.low, column.high) : null;
}

/** The number of an answer before it is clamped. @param {unknown} answer */
function plain(answer) {
  // what a text costs to read must not tell what it says
  const text = typeof answer === "string" && answer.length <= LONGEST && NUMBER.test(answer);
  return text || typeof answer === "number" || typeof answer === "boolean" ? Number(answer) : NaN;
}

/** @param {Answers} answers @param {string} name */
const given = (answers, name) => (Object.hasOwn(answers, name) ? answers[name] : undefined);

/** Columns that the design uses and the answers lack. @param {Plan} plan @param {Answers} answers */
export const unread = (plan, answers) => plan.form.filter((c) => read(c, given(answers, c.name)) === null);

/** A report to a table. @param {Plan} plan @param {Answers} answers */
export const tableOf = (plan, answers) => whole(plan, (column) => read(column, given(answers, column.name)));

/** What each answer must be that is given and isn't that, by column; public words. @param {Plan} plan @param {Answers} answers */
export function wrong(plan, answers) {
  const missing = (/** @type {unknown} */ a) => a === undefined || a === null || Number.isNaN(a) || (typeof a === "string" && !a.trim());
  const bad = plan.form.filter((c) => !missing(given(answers, c.name)) && read(c, given(answers, c.name)) === null);
  return bad.map((c) => `'${c.name}' must be ${c.levels.length ? `one of ${c.levels.map((l) => `'${l}'`).join(", ")}` : "a number"}`);
}

/** A respondent's row of the design; no numbers if there is nothing to report. @param {Plan} plan @param {Answers} answers @returns {Row} */
export function rowOf(plan, answers) {
  const nothing = { x: plan.design.map(() => NaN), y: NaN, offset: NaN, clamped: plan.clamping.map(() => 0) };
  const values = new Map();
  for (const column of used(plan)) {
    const value = read(column, given(answers, column.name));
    if (value === null) return nothing;
    values.set(column.name, value);
  }
  /** @param {import("./plan.js").Cell} cell */
  const inside = (cell) => (valueOf(cell.tree, plan.columns, values) - cell.centre) / cell.scale;
  let x = plan.design.map(inside);
  const y = inside(plan.response), offset = plan.offset === null ? 0 : valueOf(plan.offset, plan.columns, values);
  if (plan.mix !== null) {
    const bare = x;
    x = plan.mix.map((row) => row.reduce((out, m, j) => (m !== 0 ? out + bare[j] * m : out), 0));
  }
  const clamped = plan.clamping.map((name) => {
    const value = plain(given(answers, name)), { low, high } = /** @type {any} */ (plan.columns.get(name));
    return Number.isFinite(value) && (value < low || value > high) ? 1 : 0;
  });
  return [...x, y, offset].every(Number.isFinite) ? { x, y, offset, clamped } : nothing;
}

/**
 * What a row says to a state, as real numbers; of moments, the direction u.
 * @param {Plan} plan
 * @param {import("./messages.js").Ask} ask
 * @param {number} group
 * @param {Row} row
 * @returns {number[]}
 */
export function beforeNoise(plan, ask, group, row) {
  const bare = ask.yCentre === 0 && ask.yScale === 1;
  const y = bare ? row.y : (row.y - ask.yCentre) / ask.yScale;
  const less = bare ? row.y - row.offset : (row.y - row.offset - ask.yCentre) / ask.yScale;
  if (ask.role === "location") {
    return score.above(plan.unscaled.map((j) => (j === plan.design.length ? less : row.x[j])), ask.thresholds[group]);
  }
  if (ask.role === "clamping") return row.clamped;
  if (ask.role === "moments") {
    if (plan.isWide) return score.meansAndSquares(plan.wide.map((j) => row.x[j]), plan.edges);
    const last = SCALED.includes(plan.family) ? less : row.offset;
    const v = [...(plan.constant ? [1] : []), ...row.x, ...(plan.momentResponse ? [last] : [])];
    return score.direction(score.mapped(ask.rows, v));
  }
  const z = plan.isWide ? score.stretched(ask.rows, row.x) : score.mapped(ask.rows, row.x);
  const offset = row.offset / ask.yScale;
  if (ask.role === "measures") {
    const gauge = { ...(/** @type {any} */ (ask.gauge)), family: plan.family, yMax: plan.yMax, silent: plan.silent };
    return score.gauged(gauge, score.predicted(ask.theta, z).map((eta) => eta + offset), y);
  }
  const theta = thetaOf(ask, group);
  if (plan.family === "multinomial") return score.classes(theta, z, y);
  const eta = score.dot(z, theta) + offset, { family, a, b } = plan;
  const out = score.weighted(family, a, b, ask.c, eta, y, z);
  const joint = plan.roles.get(ask.role)?.form === "joint";
  return joint ? [...out, score.number(family, a, b, ask.c, eta, y)] : out;
}

/** A number in [0, 1] as an integer in [0, R]. @param {number} v @param {number} radius @param {number} nothing */
const share = (v, radius, nothing) => (Number.isNaN(v) ? nothing : Math.trunc(score.clipped(v, 0, 1) * radius));

/** Numbers with Σ v² ≤ 1 but for rounding: overlong vectors are scaled, those not finite become 0. @param {number[]} v */
export function inside(v) {
  const norm2 = score.dot(v, v), root = Math.sqrt(Math.max(norm2, 1));
  return v.map((x) => (norm2 < Infinity ? x / root : 0));
}

/** Integers with Σ a² ≤ R². @param {number[]} v @param {number} radius */
const ball = (v, radius) => shortened(inside(v).map((x) => Math.trunc(radius * x) + 0), radius);

/** Integers with Σ a² ≤ R²: the largest lose 1 until it is so, which rounding may ask for. @param {number[]} a @param {number} radius */
export function shortened(a, radius) {
  let square = a.reduce((sum, x) => sum + BigInt(x) * BigInt(x), 0n);
  for (const end = BigInt(radius) ** 2n; square > end; ) {
    let j = 0;
    a.forEach((x, k) => { if (Math.abs(x) > Math.abs(a[j])) j = k; });
    square -= 2n * BigInt(Math.abs(a[j])) - 1n;
    a[j] -= Math.sign(a[j]);
  }
  return a;
}

/**
 * Clip a report on the lattice, by the form of its role.
 * @param {Role} role
 * @param {number[]} report anything, also what is not finite
 * @returns {number[]}
 */
export function values(role, report) {
  const { form, numbers, radius } = role;
  if (form === "moments") {
    const entries = score.overRows(report, numbers, score.outer);
    const good = entries.length === numbers && score.dot(report, report) <= 1 + score.NEAR_ONE;
    return good ? entries.map((v) => Math.trunc(radius * v) + 0) : new Array(numbers).fill(0);
  }
  if (form === "blocks") return new Array(numbers).fill(0); // which `tables.whole` makes; anything else gives zeros
  const told = report.length === numbers ? report : new Array(numbers).fill(NaN);
  if (form === "box") return told.map((v) => share(v, radius, radius >> 1));
  if (form === "joint") return [...ball(told.slice(0, -1), radius), share(told[numbers - 1], radius, 0)];
  return ball(told, radius);
}

/**
 * Add noise to each number, and clamp it: what leaves the device.
 * @param {readonly number[]} a @param {Role} role @param {number} bits @param {import("./noise.js").Words} words
 */
export function randomised(a, role, bits, words) {
  const most = lattice.most(role.radius, bits);
  return a.map((v) => score.clipped(v + roundedNormal(bits, words), -most, most));
}

/**
 * A report to a state. Nothing here throws because of what the row holds.
 * @param {Plan} plan
 * @param {import("./messages.js").State} state
 * @param {import("./messages.js").Place} place
 * @param {Answers} answers
 * @param {import("./noise.js").Words} words
 */
export function reported(plan, state, place, answers, words) {
  const ask = /** @type {import("./messages.js").Ask} */ (askOf(state, place)), role = /** @type {Role} */ (plan.roles.get(ask.role));
  let made = values(role, []);
  try {
    made = plan.table.length ? tableOf(plan, answers) : values(role, beforeNoise(plan, ask, groupOf(plan, ask.role, place), rowOf(plan, answers)));
  } catch {
    // nothing throws there; whatever did would send noise alone, and not fail
  }
  return { role: ask.role, values: randomised(made, role, plan.bits, words) };
}
