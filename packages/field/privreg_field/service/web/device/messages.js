/**
 * States, tokens and reports: who is asked what, and the bytes that are posted.
 * @module
 */

import { LATEST, ROLES, momentSize, sizeOf } from "./plan.js";
import { Record, VERSION, base, hashOf, joined, loads, need, numberOf, pack, same, unbase } from "./wire.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {{key: number, id: Uint8Array, mac: Uint8Array}} Token */
/** @typedef {{role: number, group: number, slot: number}} Place each uniform below 2³² */
/**
 * What a state asks of the tokens of a role.
 * @typedef {object} Ask
 * @property {import("./plan.js").RoleName} role
 * @property {number} below
 * @property {number[][]} rows row map W: lower triangle, or scales and shifts if the design is wide
 * @property {number} yCentre
 * @property {number} yScale
 * @property {number[]} theta
 * @property {number} c
 * @property {number} step
 * @property {Uint8Array[]} signs one a group, a bit a coefficient, least first; 1: minus
 * @property {number[][]} offsets or what a group's coefficients differ by from theta, one row a group
 * @property {number[][]} thresholds
 * @property {{residual: number, spread: number, centre: number} | null} gauge
 */
/**
 * @typedef {object} State
 * @property {number} number
 * @property {Uint8Array} before hash of the state before; of the first, the plan's
 * @property {number} time
 * @property {boolean} open
 * @property {number[]} slots
 * @property {Ask[] | import("./sums.js").SumAsk[]} asks
 * @property {Uint8Array | null} nonces of two collectors: what they have drawn, so that no two states are alike
 */

const WORDS = 2 ** 32;

/** @param {Token} token */
export const tokenText = ({ key, id, mac }) => base(joined(Uint8Array.of(key), id, mac));

/** @param {any} text @returns {Token} */
export function readToken(text) {
  const data = unbase(text, "a token");
  need(data.length === 33, "a token must have 33 bytes.");
  const token = { key: data[0], id: data.slice(1, 17), mac: data.slice(17) };
  need(token.key || !token.mac.some((v) => v), "a token of a device's own has no code.");
  return token;
}

/** Place of a token in a study. @param {Uint8Array} planHash @param {Token} token @returns {Promise<Place>} */
export async function placeOf(planHash, token) {
  const view = new DataView((await hashOf(joined(planHash, token.id))).buffer);
  return { role: view.getUint32(0), group: view.getUint32(4), slot: view.getUint32(8) };
}

/**
 * Read the payload of a state whose signature was verified.
 * @param {Uint8Array} payload @param {Plan} plan @param {Uint8Array} planHash
 * @returns {State}
 */
export function readState(payload, plan, planHash) {
  const record = new Record(loads(payload, "the state"), "the state");
  record.fixed("v", VERSION);
  need(same(record.binary("plan", 32), planHash), "the state is one of another plan.");
  const slots = record.integers("slots", 0, WORDS, 2);
  const found = record.items("asks", plan.collectors.length ? 1 : undefined, 8).map((a) => new Record(a, "an ask of the state"));
  const { summing } = plan, asks = summing ? found.map((a) => summing.readSumAsk(a, plan)) : found.map((a) => readAsk(a, plan));
  const state = {
    asks, slots,
    number: record.integer("number", 0, 2 ** 31),
    before: record.binary("before", 32),
    time: record.integer("time", 0, LATEST),
    open: record.flag("open"),
    nonces: plan.collectors.length ? record.binary("nonces", 32) : null,
  };
  record.done();
  const ends = [0, ...asks.map((a) => a.below)];
  const ascend = ends.every((v, i) => i === 0 || v > ends[i - 1]);
  need(slots[0] <= slots[1] && ends[ends.length - 1] === WORDS && ascend, "the state's thresholds must ascend to 2^32.");
  return state;
}

/** @param {Record} record @param {Plan} plan @returns {Ask} */
function readAsk(record, plan) {
  const role = record.choice("role", [...ROLES, "table"]), form = plan.roles.get(role);
  need(form, "the state asks for a role that the plan doesn't describe.");
  const scores = ["pilot", "main", "measures"].includes(role), d = plan.design.length, size = sizeOf(plan);
  /** @type {number[][]} */
  let rows = [];
  if (["location", "clamping", "table"].includes(role) || (role === "moments" && plan.isWide)) record.items("rows", 0);
  else if (plan.isWide) {
    const flat = record.reals("rows", 2 * d);
    rows = [flat.slice(0, d), flat.slice(d)];
  } else {
    const n = role === "moments" ? momentSize(plan) : d, flat = record.reals("rows", (n * (n + 1)) / 2);
    rows = Array.from({ length: n }, (_, j) => flat.slice((j * (j + 1)) / 2, ((j + 1) * (j + 2)) / 2));
  }
  const theta = record.reals("theta", scores ? size : 0);
  const yCentre = record.real("y_centre"), yScale = record.real("y_scale");
  const c = record.real("c"), step = record.real("step");
  const signs = record.items("signs", undefined, form.groups).map((s) => unbase(s, "'signs' of the state"));
  const whole = signs.length === form.groups && signs.every((s) => s.length === Math.ceil(size / 8));
  need(!signs.length || (role === "main" && whole), "'signs' of the state can't be right.");
  const offsets = byGroup(record, "offsets", form.groups, size);
  need(!offsets.length || (role === "main" && !signs.length && offsets.length === form.groups),
    "'offsets' of the state can't be right.");
  const thresholds = byGroup(record, "thresholds", form.groups, plan.unscaled.length);
  need(thresholds.length === (role === "location" ? form.groups : 0), "'thresholds' of the state can't be right.");
  const one = record.optional("gauge");
  const gauge = one && { residual: one.real("residual"), spread: one.real("spread"), centre: one.real("centre") };
  one?.done();
  need((gauge !== null) === (role === "measures"), "'gauge' of the state can't be right.");
  const below = record.integer("below", 1, WORDS);
  record.done();
  return { role, below, rows, yCentre, yScale, theta, c, step, signs, offsets, thresholds, gauge };
}

/** @param {Record} record @param {string} name @param {number} groups at most @param {number} size */
const byGroup = (record, name, groups, size) => record.items(name, undefined, groups).map((row) =>
  new Record(new Map([["of", row]]), "a group").items("of", size).map((v) => numberOf(v, `'${name}' of the state`)));

/** What a state asks of a token. @param {State} state @param {Place} place @returns {Ask | import("./sums.js").SumAsk} */
export const askOf = (state, place) => /** @type {Ask} */ ([...state.asks].find((a) => place.role < a.below));

/** Random group in which a token answers. @param {Plan} plan @param {string} role @param {Place} place */
export const groupOf = (plan, role, place) =>
  Math.floor((place.group * /** @type {any} */ (plan.roles.get(role)).groups) / WORDS);

/**
 * Whether what a collector has signed is of a token's share to a state.
 * @param {Uint8Array} payload verified @param {string} letter of the collector
 * @param {Uint8Array} planHash @param {number} state @param {Uint8Array} id
 */
export function isOf(payload, letter, planHash, state, id) {
  const record = new Record(loads(payload, "the message"), "the message");
  record.fixed("v", VERSION);
  const named = same(record.binary("plan", 32), planHash), own = record.take("collector") === letter;
  const fine = named && own && record.take("state") === state && same(unbase(record.take("ids"), "'ids'"), id);
  if (fine) record.done();
  return fine;
}

/** Coefficients of a group. @param {Ask} ask @param {number} group */
export function thetaOf(ask, group) {
  if (ask.offsets.length) return ask.theta.map((t, j) => t + ask.offsets[group][j]);
  const bits = ask.signs[group];
  return bits ? ask.theta.map((t, j) => ((bits[j >> 3] >> (j & 7)) & 1 ? t - ask.step : t + ask.step)) : ask.theta;
}

/**
 * The text that is posted; ASCII alone, so that its bytes are certain.
 * @param {Uint8Array} planHash @param {number} state @param {string} role @param {Token} token
 * @param {{values: string} | {share: string}} rest
 */
export function bodyOf(planHash, state, role, token, rest) {
  return JSON.stringify({ v: VERSION, plan: base(planHash), state, role, token: tokenText(token), ...rest });
}

/** @param {Uint8Array} planHash @param {number} state @param {string} role @param {Token} token @param {readonly number[]} values */
export const reportBody = (planHash, state, role, token, values) => bodyOf(planHash, state, role, token, { values: pack(values) });
