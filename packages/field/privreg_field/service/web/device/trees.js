/**
 * Columns of a design as trees of a closed list of operations, in nested lists: checked, and evaluated in IEEE doubles.
 * @module
 */

import { MessageError, isInt, need, numberOf } from "./wire.js";

/** @typedef {string | number | boolean} Label */
/**
 * A column of a respondent's row, as the plan declares it.
 * @typedef {{name: string, levels: Label[], labels: string[], low: number, high: number, ask: string}} Column
 */

const DEEPEST = 48;
/** Operations of all columns of a design together, at most. */
export const MOST = 20_000;
const MOST_KNOTS = 200;
const HIGHEST = 5;

// --- operations ---------------------------------------------------------------------------------------------

/** As Python has it: of the sign of b. @param {number} a @param {number} b */
function mod(a, b) {
  if (b === 0 || !Number.isFinite(a)) return NaN;
  const left = a % b;
  if (left !== 0) return b < 0 !== left < 0 ? left + b : left;
  return b < 0 || Object.is(b, -0) ? -0 : 0;
}

/** @param {number} a @param {number} b */
function floordiv(a, b) {
  if (b === 0) return a / b;
  if (!Number.isFinite(a)) return NaN;
  const left = a % b;
  let ratio = (a - left) / b;
  if (left !== 0 && b < 0 !== left < 0) ratio -= 1;
  if (ratio === 0) return a / b < 0 || Object.is(a / b, -0) ? -0 : 0;
  const low = Math.floor(ratio);
  return ratio - low > 0.5 ? low + 1 : low;
}

/** Powers 2, −1 and 1/2 are rounded correctly, so the same in every language. @param {number} a @param {number} b */
function pow(a, b) {
  if (b === 2) return a * a;
  if (b === -1) return 1 / a;
  if (b === 0.5) return a >= 0 ? Math.sqrt(a) : NaN;
  return a === 1 || (a === -1 && Math.abs(b) === Infinity) ? 1 : a ** b;
}

/** Ties to even. @param {number} a */
export function round(a) {
  if (!(Math.abs(a) < 2 ** 52)) return a;
  const low = Math.floor(a), part = a - low;
  const size = Math.abs(part < 0.5 || (part === 0.5 && low % 2 === 0) ? low : low + 1);
  return a < 0 || Object.is(a, -0) ? -size : size;
}

/** @param {number} a @param {number} b */
const either = (a, b) => Number.isNaN(a) || Number.isNaN(b);

/** @type {Map<string, (a: number) => number>} */
const ONE = new Map([
  ["log", Math.log], ["log1p", Math.log1p], ["exp", Math.exp], ["sqrt", Math.sqrt], ["abs", Math.abs], ["round", round],
  ["not", (a) => Number(a === 0)],
]);

/** @type {Map<string, (a: number, b: number) => number>} */
const TWO = new Map([
  ["add", (a, b) => a + b], ["sub", (a, b) => a - b], ["mul", (a, b) => a * b], ["div", (a, b) => a / b],
  ["mod", mod], ["floordiv", floordiv], ["pow", pow],
  ["min", (a, b) => (either(a, b) ? NaN : b < a ? b : a)], ["max", (a, b) => (either(a, b) ? NaN : b > a ? b : a)],
  ["and", (a, b) => Number(a !== 0 && b !== 0)], ["or", (a, b) => Number(a !== 0 || b !== 0)],
]);

/** @type {Map<string, (a: number, b: number) => boolean>} */
const COMPARE = new Map([
  ["lt", (a, b) => a < b], ["le", (a, b) => a <= b], ["gt", (a, b) => a > b], ["ge", (a, b) => a >= b],
  ["eq", (a, b) => a === b], ["ne", (a, b) => a !== b],
]);

/** How a label is told from others: its text in Unicode's form NFC. @param {unknown} value */
export const labelText = (value) => String(value).normalize("NFC");
/** @param {any} value */
export const isLabel = (value) => ["string", "number", "boolean"].includes(typeof value);

/** @param {string} text */
const hex = (text) => numberOf(text, "a number");

/**
 * Value of a tree, which `check` has let pass.
 * @param {any[]} tree
 * @param {Map<string, Column>} columns
 * @param {Map<string, number>} values numbers; of a factor the place of its level
 * @returns {number}
 */
export function valueOf(tree, columns, values) {
  const [name, ...args] = tree;
  /** @param {number} i */
  const at = (i) => valueOf(args[i], columns, values);
  const one = ONE.get(name), two = TWO.get(name);
  if (one) return one(at(0));
  if (two) return two(at(0), at(1));
  if (name === "const") return hex(args[0]);
  if (name === "col") return /** @type {number} */ (values.get(args[0]));
  if (name === "level") {
    const labels = /** @type {Column} */ (columns.get(args[0])).levels.map(labelText);
    return Number(values.get(args[0]) === labels.indexOf(labelText(args[1])));
  }
  if (name === "cmp") return Number(/** @type {any} */ (COMPARE.get(args[0]))(at(1), at(2)));
  if (name === "where") {
    const yes = at(1), no = at(2); // both, so that time does not tell which
    return at(0) !== 0 ? yes : no;
  }
  if (name === "bspline") return bspline(at(0), args[1], args[2].map(hex), args[3]);
  return cubic(at(0), args[1].map(hex), args[2].map(hex), args[3].map(hex));
}

/**
 * Basis function of B-splines over all knots, boundaries repeated; no number outside them. De Boor (1978), chapter X.
 * @param {number} x @param {number} degree @param {number[]} knots @param {number} index
 */
function bspline(x, degree, knots, index) {
  if (!(knots[0] <= x && x <= knots[knots.length - 1])) return NaN;
  const last = knots.length - degree - 2;
  let at = degree; // the knot interval [t_at, t_at+1) that holds x, the last one closed
  while (at < last && x >= knots[at + 1]) at += 1;
  let values = [1]; // the functions that aren't 0 there, of which the first is number at − degree
  for (let k = 1; k <= degree; k += 1) {
    const before = values;
    values = new Array(k + 1).fill(0);
    before.forEach((value, r) => {
      const left = knots[at + r + 1 - k], right = knots[at + r + 1];
      const share = right > left ? value / (right - left) : 0; // of knots on the upper bound
      values[r] += (right - x) * share;
      values[r + 1] += (x - left) * share;
    });
  }
  return values[index - (at - degree)] ?? 0;
}

/**
 * Cubic spline of given values and second derivatives at its knots; no number outside them.
 * @param {number} x @param {number[]} knots @param {number[]} values @param {number[]} bends
 */
function cubic(x, knots, values, bends) {
  if (!(knots[0] <= x && x <= knots[knots.length - 1])) return NaN;
  let j = 0;
  while (j < knots.length - 2 && knots[j + 1] < x) j += 1;
  const h = knots[j + 1] - knots[j], above = knots[j + 1] - x, below = x - knots[j];
  const left = (above * above * above) / (6 * h) - (h * above) / 6;
  const right = (below * below * below) / (6 * h) - (h * below) / 6;
  const out = (above / h) * values[j] + (below / h) * values[j + 1];
  return out + left * bends[j] + right * bends[j + 1];
}

// --- checks -------------------------------------------------------------------------------------------------

/**
 * Check a tree: operations of the list, declared columns and levels, finite numbers. Returns how many operations.
 * @param {any} tree
 * @param {Map<string, Column>} columns
 * @param {string} what
 */
export function check(tree, columns, what) {
  let count = 0;
  const left = [{ node: tree, deep: 1 }];
  for (let next = left.pop(); next; next = left.pop()) {
    const { node, deep } = next;
    count += 1;
    need(deep <= DEEPEST && count <= MOST, `${what} is too large a tree.`);
    for (const arg of checked(node, columns, what)) left.push({ node: arg, deep: deep + 1 });
  }
  return count;
}

/**
 * Arguments of a node that are trees themselves.
 * @param {any} node @param {Map<string, Column>} columns @param {string} what
 * @returns {any[]}
 */
function checked(node, columns, what) {
  const wrong = new MessageError(`${what} has an operation that this version doesn't know, or with other arguments.`);
  if (!Array.isArray(node) || typeof node[0] !== "string") throw wrong;
  const [name, ...args] = node, n = args.length;
  /** @param {any} of */
  const declared = (of) => {
    const column = columns.get(of);
    need(column, `${what} reads a column that isn't declared.`);
    return column;
  };
  if ((TWO.has(name) && n === 2) || (ONE.has(name) && n === 1) || (name === "where" && n === 3)) return args;
  if (name === "cmp" && n === 3 && COMPARE.has(args[0])) return args.slice(1);
  if (name === "const" && n === 1) {
    numberOf(args[0], what);
    return [];
  }
  if (name === "col" && n === 1) {
    if ([0, 2].includes(declared(args[0]).levels.length)) return [];
  }
  if (name === "level" && n === 2) {
    if (isLabel(args[1]) && declared(args[0]).levels.map(labelText).includes(labelText(args[1]))) return [];
  }
  if (name === "bspline" && n === 4) {
    const size = knotsOf(args[2], what, false);
    if (isInt(args[1], 0, HIGHEST) && size > 2 * args[1] + 1 && isInt(args[3], 0, size - args[1] - 2)) return args.slice(0, 1);
  }
  if (name === "cr" && n === 4) {
    const size = knotsOf(args[1], what, true);
    if (args.slice(2).every((v) => Array.isArray(v) && v.length === size)) {
      for (const value of [...args[2], ...args[3]]) numberOf(value, what);
      return args.slice(0, 1);
    }
  }
  throw wrong;
}

/** @param {any} value @param {string} what @param {boolean} strict */
function knotsOf(value, what, strict) {
  const wrong = `${what} must have from 2 to ${MOST_KNOTS} knots in ascending order.`;
  need(Array.isArray(value) && value.length >= 2 && value.length <= MOST_KNOTS, wrong);
  const knots = value.map((v) => numberOf(v, what));
  const fine = knots.every((v, i) => i === 0 || (strict ? v > knots[i - 1] : v >= knots[i - 1]));
  need(fine && knots[0] !== knots[knots.length - 1], wrong);
  return knots.length;
}

/** Columns that a tree reads. @param {any} tree @returns {string[]} */
export function names(tree) {
  if (!Array.isArray(tree)) return [];
  if (tree[0] === "col" || tree[0] === "level") return [tree[1]];
  if (tree[0] === "const") return [];
  return (tree[0] === "bspline" || tree[0] === "cr" ? [tree[1]] : tree.slice(1)).flatMap(names);
}
