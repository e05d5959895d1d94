/**
 * Several analyses in one study: what a plan says of all, of each, and who answers which.
 * @module
 */

import { Record, bytes, hashOf, joined, need } from "./wire.js";

/** @typedef {{name: string, whole: number[] | null, people: number[]}} Part `people` is a range of words, see `wordOf` */

const WORDS = 2 ** 32;
const MOST = 16;
/** What each analysis says. All else is the study's: a device asks and tells its owner once, of the first analysis. */
const OWN = new Set("design score privacy roles moments unscaled measures rounds model clamping sums table".split(" "));
const WRONG = "the plan's analyses can't be right.";

/** Each analysis with all members of its plan, those of the study included. @param {any} said @returns {[Part, Map<string, any>][]} */
export function partsOf(said) {
  const record = new Record(said, "the plan");
  if (!record.left.has("analyses")) return [[{ name: "", whole: null, people: [0, WORDS] }, said]];
  const found = record.items("analyses", undefined, MOST), together = record.object("together");
  const whole = together.integers("mu", 1, 10 ** 7, 2), split = together.take("below");
  together.done();
  const ends = split === null ? null : new Record(new Map([["below", split]]), "'together'").integers("below", 1, WORDS, found.length);
  need(found.length && (!ends || (ends[ends.length - 1] === WORDS && ends.every((v, k) => k === 0 || v > ends[k - 1]))), WRONG);
  const common = [...said].filter(([name]) => name !== "analyses" && name !== "together"), names = new Set();
  return found.map((one, k) => {
    const name = new Record(one, "an analysis").text("name", 31), own = [...one].filter(([key]) => key !== "name" && !key.startsWith("x_"));
    need(/^[a-z][a-z0-9_-]{0,30}$/.test(name) && !names.has(name), WRONG);
    names.add(name);
    need(own.every(([key]) => OWN.has(key)) && common.every(([key]) => !OWN.has(key)), WRONG);
    return [{ name, whole, people: ends ? [k ? ends[k - 1] : 0, ends[k]] : [0, WORDS] }, new Map([...common, ...own])];
  });
}

/** Whether the budgets of everybody's analyses, or of each range of people's, are no more than the whole: Σμ² in fractions.
 * @param {{mu: number[], part: Part}[]} plans @param {(budgets: number[][], caps: number[][]) => boolean} within */
export const kept = (plans, within) => plans.every(({ mu, part: { people, whole } }) =>
  within(plans.filter((p) => p.part.people[0] === people[0]).map((p) => p.mu), [whole ?? mu]));

/** By what an analysis is named in states and reports. @param {Uint8Array} planHash @param {string} name */
export const partHash = async (planHash, name) => (name ? hashOf(joined(bytes("privreg/analysis/v1\0"), planHash, bytes(name))) : planHash);

/** By what a token is dealt to an analysis: uniform below 2³². @param {Uint8Array} planHash @param {Uint8Array} id */
export async function wordOf(planHash, id) {
  return new DataView((await hashOf(joined(bytes("privreg/split/v1\0"), planHash, id))).buffer).getUint32(0);
}
