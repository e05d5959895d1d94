/**
 * Tables of respondents: what a report is made of, and the whole numbers of one.
 *
 * With t a number on [−1, 1], a = 1 if there is one, and W the block's weight, a number's block is (W t, W a), with √2 W t² at
 * the report's end; of a factor it is W for the level, 0 for the others.
 * @module
 */

import { Record, need } from "./wire.js";

/** @typedef {import("./trees.js").Column} Column */
/** @typedef {{columns: string[], weight: number}} Block */

/** @param {Record} record @param {Map<string, Column>} columns @returns {Block[]} */
export function readBlocks(record, columns) {
  const out = record.items("table", undefined, 200).map((one) => {
    const each = new Record(one, "a block of the table"), names = each.items("columns", undefined, 2), weight = each.integer("weight", 1, 2 ** 30);
    each.done();
    const found = names.map((name) => (typeof name === "string" ? columns.get(name) : undefined));
    const [first] = found, bounded = first && found.length === 1 && Number.isFinite(first.low) && Number.isFinite(first.high) && first.low < first.high;
    need(names.length && (found.every((c) => c && c.levels.length) || bounded), "a block of the table can't be right.");
    need(new Set(names).size === names.length, "a block of the table crosses a factor with itself.");
    return { columns: names, weight };
  });
  need(out.length, "a table has at least one block.");
  return out;
}

/** Levels of a block's factor, or pairs of them; 0 of a number. @param {Block} block @param {Map<string, Column>} columns */
export const levelsOf = (block, columns) => block.columns.reduce((n, name) => n * /** @type {Column} */ (columns.get(name)).levels.length, 1);

/** Numbers of a report; `gaps` says whether a value may be missing. @param {Block[]} blocks @param {Map<string, Column>} columns @param {boolean} gaps */
export const width = (blocks, columns, gaps) => blocks.reduce((n, b) => n + (levelsOf(b, columns) || 2) + Number(gaps), 0);

/** Squared distance of two reports, at most: 2W² of a factor, (2W + 1)² of a number. @param {Block[]} blocks @param {Map<string, Column>} columns */
export const distance2 = (blocks, columns) => blocks.reduce((sum, b) => {
  const w = BigInt(b.weight);
  return sum + (levelsOf(b, columns) ? 2n * w * w : (2n * w + 1n) ** 2n);
}, 0n);

/** The largest whole number whose square is no more. @param {bigint} n below 2⁶² */
function root(n) {
  let r = BigInt(Math.floor(Math.sqrt(Number(n))));
  while (r * r > n) r -= 1n;
  while ((r + 1n) * (r + 1n) <= n) r += 1n;
  return r;
}

/**
 * A report in whole numbers, in the set of the role's radius whatever the answers are.
 * @param {{table: Block[], columns: Map<string, Column>, missing: string}} plan
 * @param {(column: Column) => number | null} read an answer: a number clamped, or the place of a level; null if it is missing
 * @returns {number[]}
 */
export function whole({ table, columns, missing }, read) {
  const gaps = missing === "noise", squares = [], out = [];
  for (const block of table) {
    const held = block.columns.map((name) => /** @type {Column} */ (columns.get(name))), values = held.map(read);
    const size = levelsOf(block, columns), { weight } = block, known = !values.includes(null);
    if (size) {
      let at = gaps ? size : -1;
      if (known) at = values.reduce((/** @type {number} */ n, v, k) => n * held[k].levels.length + Number(v), 0);
      for (let k = 0; k < size + Number(gaps); k += 1) out.push(k === at ? weight : 0);
      continue;
    }
    const [{ low, high }] = held, middle = 0.5 * (low + high), half = 0.5 * (high - low);
    const t = known ? Math.trunc(weight * Math.min(Math.max((Number(values[0]) - middle) / half, -1), 1)) + 0 : 0;
    out.push(t, ...(gaps ? [known ? weight : 0] : []));
    squares.push(Number(root((2n * BigInt(t) ** 4n) / BigInt(weight) ** 2n)));
  }
  return [...out, ...squares];
}
