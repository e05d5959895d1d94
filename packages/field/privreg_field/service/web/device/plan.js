/**
 * The plan of a study: what a device is told before it sees a row. What is unknown to this version is refused, and so is a
 * radius that doesn't keep the budget.
 * @module
 */

import { kept, partHash, partsOf } from "./analyses.js";
import * as lattice from "./lattice.js";
import { within } from "./memory.js";
import { distance2, readBlocks, width } from "./tables.js";
import { MOST, check, isLabel, labelText, names } from "./trees.js";
import { MessageError, Record, VERSION, hashOf, isSeen, keyId, loads, need } from "./wire.js";

/** @typedef {import("./trees.js").Column} Column */
/** @typedef {typeof import("./sums.js")} Summing */
/** @typedef {"location" | "moments" | "pilot" | "clamping" | "main" | "measures" | "table" | import("./sums.js").RoleName} RoleName */
/** @typedef {{form: lattice.Form, numbers: number, radius: number, groups: number}} Role */
/** @typedef {{name: string, tree: any, centre: number, scale: number}} Cell */
/**
 * @typedef {object} Plan
 * @property {string} study short name in addresses
 * @property {string} title
 * @property {string} purpose
 * @property {string} contact
 * @property {number} opens seconds since 1970 UTC, as all times
 * @property {number} closes
 * @property {number} grace
 * @property {Uint8Array[]} keys one of which signs every state; both, of two collectors
 * @property {import("./sums.js").Collector[]} collectors two, if noise is added to sums of shares; none if devices add it
 * @property {import("./sums.js").Sums | null} sums what reports to two collectors are made of
 * @property {Summing | null} summing what reads the plan, states and addresses of two collectors; other studies don't load it
 * @property {Map<string, Column>} columns
 * @property {Cell} response
 * @property {any} offset tree, or null
 * @property {string[]} clamping columns of which a role tells whether bounds clamp them
 * @property {Cell[]} design
 * @property {number[][] | null} mix
 * @property {string} family
 * @property {number} a
 * @property {number} b
 * @property {number} blocks
 * @property {number[]} mu p and q of μ = p/q
 * @property {number} bits
 * @property {string} releaseGroup
 * @property {Map<string, Role>} roles
 * @property {"noise" | "refuse"} missing
 * @property {"issued" | "open"} tokens
 * @property {number} limit bytes of a report
 * @property {number[]} unscaled
 * @property {boolean} constant
 * @property {boolean} momentResponse
 * @property {number[]} wide
 * @property {number[]} edges
 * @property {boolean} isWide
 * @property {number} yMax
 * @property {boolean} silent
 * @property {import("./tables.js").Block[]} table what a table is made of; of a regression nothing
 * @property {import("./analyses.js").Part} part which analysis of the study it is, where there are several
 * @property {Column[]} form columns that its respondents are asked about
 * @property {number[]} together budget of a person for all of the study, as `mu`
 * @property {string} slug name of the analysis among all of a device
 * @property {string} path where it is below the study's address
 * @property {Uint8Array} hash by what states and reports name it
 * @property {Map<string, any>} languages texts of the study in other languages, which no report depends on
 * @property {Map<string, any>} texts words of the page in the plan's language, which no report depends on
 */

/** Numbers that tell how well a fit predicts, of each family of scores that a device knows. */
const MEASURES = new Map([
  ["huber", 3], ["expectile", 1], ["quantile", 1], ["squared", 3], ["logistic", 3], ["balanced", 3], ["multinomial", 0],
  ["poisson", 3], ["robust_poisson", 3], ["hinge", 2], ["smoothed_hinge", 2], ["cloglog", 3], ["ordered", 0],
  ["negative_binomial", 3], ["tobit", 0], ["hazards", 0],
]);
/** @type {readonly RoleName[]} */
export const ROLES = ["location", "moments", "pilot", "clamping", "main", "measures"];
export const LATEST = 2 ** 36;
const LIMIT = 64 * 1024;
const MOST_COLUMNS = 2000;
const MOST_MU = 10 ** 7;

/** @param {any} fine @param {string} what */
const right = (fine, what) => need(fine, `the plan's ${what} can't be right.`);

/** @param {Record} record @returns {Map<string, Column>} */
function columnsOf(record) {
  const out = new Map();
  for (const one of record.items("columns", undefined, MOST_COLUMNS)) {
    const each = new Record(one, "a column");
    const name = each.text("name", 256), kind = each.choice("kind", ["number", "levels"]);
    let low = -Infinity, high = Infinity;
    /** @type {any[]} */
    let levels = [];
    /** @type {string[]} */
    let labels = [];
    if (kind === "number") {
      low = each.real("low", true);
      high = each.real("high", true);
      right(low <= high && low < Infinity && high > -Infinity, "bounds");
    } else {
      levels = each.items("levels", undefined, 200);
      right(levels.every((v) => isLabel(v) && isSeen(v)) && levels.length > 1 && new Set(levels.map(labelText)).size === levels.length, "levels");
      if (each.left.has("labels")) {
        labels = each.items("labels", levels.length).map((label) => new Record(new Map([["label", label]]), "a column").text("label", 200));
        right(new Set(labels).size === labels.length, "labels");
      }
    }
    const ask = each.text("ask", 2000);
    each.done();
    right(!out.has(name), "columns");
    out.set(name, { name, levels, labels, low, high, ask });
  }
  return out;
}

/** @param {Record} record @param {Map<string, Column>} columns @returns {Cell} */
function cellOf(record, columns) {
  const name = record.text("name", 1000), tree = record.take("tree");
  const centre = record.real("centre"), scale = record.real("scale");
  record.done();
  check(tree, columns, "a column of the design");
  right(scale !== 0, "scales");
  return { name, tree, centre, scale };
}

/** @param {Record} record @param {Summing | null} summing of two collectors @returns {Map<string, Role>} */
function rolesOf(record, summing) {
  const out = new Map();
  for (const name of [...(summing ? summing.ROLES : ROLES), "table"]) {
    if ((name === "clamping" || name === "table") && !record.left.has(name)) continue; // of which plans without it say nothing
    const one = record.optional(name);
    if (one === null) continue;
    out.set(name, {
      form: one.choice("form", summing ? lattice.SUM_FORMS : lattice.FORMS),
      numbers: one.integer("numbers", 1, summing ? summing.MOST_NUMBERS : 12_000),
      radius: one.integer("radius", 1, 2 ** 30 - 1),
      groups: one.integer("groups", 1, 64),
    });
    one.done();
  }
  record.done();
  return out;
}

/** Words of the page, if they are some. @param {any} value @returns {Map<string, string>} */
function textsOf(value) {
  const out = new Map([...(value instanceof Map ? value : [])].filter(([, text]) => typeof text === "string"));
  right([...out].flat().every((text) => isSeen(text)), "texts");
  return out;
}

/** @param {Record} record @param {Map<string, Role>} roles */
function checkRounds(record, roles) {
  const rounds = record.items("rounds", undefined, 1000);
  for (const one of rounds) {
    const each = new Record(one, "a round");
    each.choice("role", [...roles.keys()]);
    each.integer("total", 0, 2 ** 48);
    each.integer("after", 0, LATEST);
    each.integer("least", 0, 2 ** 48);
    each.flag("optional");
    each.done();
  }
  right(rounds.length, "rounds");
}

/** Read the plan of a study with one analysis. @param {Uint8Array} payload @returns {Promise<Plan>} */
export async function readPlan(payload) {
  const plans = await readPlans(payload);
  right(plans.length === 1, "analyses");
  return plans[0];
}

/**
 * Read the payload of a plan whose signature was verified: a plan for each analysis, in order.
 * @param {Uint8Array} payload
 * @returns {Promise<Plan[]>}
 */
export async function readPlans(payload) {
  const plans = [], planHash = await hashOf(payload);
  for (const [part, said] of partsOf(loads(payload, "the plan"))) plans.push(await readOne(said, part, await partHash(planHash, part.name)));
  right(new Set(plans.map((p) => p.releaseGroup)).size === 1 && kept(plans, within), "analyses");
  for (const plan of plans) {
    const beside = plans.filter((p) => p.part.people[0] === plan.part.people[0]), asked = new Set(beside.flatMap(used));
    plan.form = [...plan.columns.values()].filter((c) => [...asked].some((a) => a.name === c.name));
  }
  return plans;
}

/** What a plan of a table has in the places of a regression's model. */
const NO_MODEL = {
  response: { name: "table", tree: ["const", "0x0.0p+0"], centre: 0, scale: 1 }, offset: null, design: [], mix: null, family: "table",
  a: 0, b: 0, blocks: 1, unscaled: [], constant: false, momentResponse: false, wide: [], edges: [], isWide: false, yMax: 0,
  silent: false, sums: null,
};

/** @param {any} said @param {import("./analyses.js").Part} part @param {Uint8Array} hash @returns {Promise<Plan>} */
async function readOne(said, part, hash) {
  const record = new Record(said, "the plan");
  record.fixed("v", VERSION);
  record.fixed("score_weights", "unit"); // reserved, as the next two
  record.fixed("record_weight", null);
  record.fixed("cluster", null);
  if (record.left.has("diary")) throw new MessageError("the study asks for several rows of answers, or weighs them, which this page can't keep: answer it by the program of the device, privreg respond --diary.");
  const study = record.text("study", 63);
  right(/^[a-z0-9][a-z0-9_-]{0,62}$/.test(study), "name");
  const opens = record.integer("opens", 0, LATEST), closes = record.integer("closes", 0, LATEST);
  right(opens < closes, "times");
  const keys = [];
  for (const one of record.items("keys", undefined, 64)) {
    const each = new Record(one, "a key"), kid = each.text("kid", 32), key = each.binary("key", 32);
    each.done();
    right(kid === (await keyId(key)), "keys");
    keys.push(key);
  }
  const summing = record.left.has("collectors") ? await import("./sums.js") : null;
  const collectors = summing ? summing.readCollectors(record, keys) : [];
  const columns = columnsOf(record);
  const privacy = record.object("privacy"), mu = privacy.integers("mu", 1, MOST_MU, 2);
  privacy.fixed("mechanism", summing ? "sums" : "rounded_gaussian");
  const bits = summing ? lattice.bitsOfSums(mu) : lattice.BITS;
  privacy.fixed("bits", bits);
  if (!summing) privacy.fixed("clamp", lattice.CLAMP);
  const releaseGroup = privacy.text("release_group", 256);
  privacy.done();
  const roles = rolesOf(record.object("roles"), summing), table = record.left.has("table") ? readBlocks(record, columns) : [];
  /** @type {Plan} */
  const plan = {
    study, opens, closes, keys, columns, mu, bits, releaseGroup, roles, collectors, summing, table, part, hash, form: [],
    ...(table.length ? NO_MODEL : regressionOf(record, columns, summing)),
    together: part.whole ?? mu, slug: part.name ? `${study}/${part.name}` : study, path: part.name ? `/analyses/${part.name}` : "",
    title: record.text("title", 200),
    purpose: record.text("purpose", 4096, true),
    contact: record.text("contact", 1000),
    grace: record.integer("grace", 0, LATEST),
    missing: record.choice("missing", ["noise", "refuse"]),
    tokens: record.choice("tokens", ["issued", "open"]),
    limit: record.integer("limit", 512, LIMIT),
    clamping: clampingOf(record, roles, columns),
    texts: textsOf(record.left.get("x_texts")),
    languages: languagesOf(record.left.get("x_languages")),
  };
  checkRounds(record, roles);
  record.object("model");
  record.done();
  if (!table.length) checkScore(plan);
  checkReports(plan);
  return plan;
}

/** Texts of the study in other languages, each shown text seen as it is. @param {any} value @returns {Map<string, any>} */
function languagesOf(value) {
  const out = value instanceof Map ? value : new Map();
  /** @param {any} one @returns {any[]} */
  const flat = (one) => (one instanceof Map ? [...one].flat().flatMap(flat) : Array.isArray(one) ? one.flatMap(flat) : [one]);
  right(flat(out).every((text) => typeof text === "string" && isSeen(text.replaceAll("\n", " "))), "languages");
  return out;
}

/** Design and score of a regression, and what its reports have beside. @param {Record} record @param {Map<string, Column>} columns @param {Summing | null} summing */
function regressionOf(record, columns, summing) {
  const inner = record.object("design");
  const response = cellOf(inner.object("response"), columns), offset = inner.take("offset");
  if (offset !== null) check(offset, columns, "the offset");
  const design = inner.items("columns", undefined, MOST_COLUMNS)
    .map((c) => cellOf(new Record(c, "a column of the design"), columns));
  const d = design.length;
  right(d, "design");
  const given = inner.take("mix");
  right(given === null || (Array.isArray(given) && given.length === d), "mix");
  const mix = given && given.map((/** @type {any} */ row) =>
    new Record(new Map([["row", row]]), "'mix' of the design").reals("row", d));
  inner.done();
  const score = record.object("score"), family = score.choice("family", [...MEASURES.keys()]);
  const a = score.real("a"), b = score.real("b"), blocks = score.integer("blocks", 1, 49);
  score.done();
  const extra = record.object("moments");
  const constant = extra.flag("constant"), momentResponse = extra.flag("response"), of = extra.optional("wide");
  const wide = of ? of.integers("columns", 0, d - 1) : [], edges = of ? of.reals("edges", wide.length) : [];
  of?.done();
  right(edges.every((/** @type {number} */ e) => e > 0), "edges");
  extra.done();
  const measured = record.object("measures"), yMax = measured.real("y_max"), silent = measured.flag("silent");
  measured.done();
  return {
    response, offset, design, mix, family, a, b, blocks, constant, momentResponse, wide, edges, isWide: of !== null, yMax, silent,
    unscaled: record.integers("unscaled", 0, d), sums: summing && summing.readSums(record, d),
  };
}

/**
 * Columns of which a role tells whether bounds clamp them; a plan without the role has no such member.
 * @param {Record} record @param {Map<string, Role>} roles @param {Map<string, Column>} columns @returns {string[]}
 */
function clampingOf(record, roles, columns) {
  if (!roles.has("clamping")) return [];
  const names = record.items("clamping", undefined, MOST_COLUMNS);
  right(new Set(names.map(String)).size === names.length, "clamping");
  for (const name of names) {
    const own = typeof name === "string" ? columns.get(name) : undefined;
    right(own && !own.levels.length && (Number.isFinite(own.low) || Number.isFinite(own.high)), "clamping");
  }
  return names;
}

/** Numbers for which a score lies in [−1, 1]; it is clipped to it besides. @param {Plan} plan */
function checkScore({ family, a, b, blocks }) {
  let fine = true;
  if (family === "expectile" || family === "quantile") fine = a > 0 && a < 1 && b === Math.max(a, 1 - a);
  if (family === "squared" || family === "tobit") fine = a < b;
  if (["poisson", "robust_poisson", "negative_binomial", "smoothed_hinge"].includes(family)) fine = a > 0;
  right(fine && blocks > 1 === (family === "multinomial"), "score");
}

/** Coefficients. @param {Plan} plan */
export const sizeOf = (plan) => plan.blocks * plan.design.length;

/** Columns of the rows that moments are of. @param {Plan} plan */
export const momentSize = (plan) => plan.design.length + Number(plan.constant) + Number(plan.momentResponse);

/** Numbers that a device makes, whatever the plan says. @param {Plan} plan @param {string} role @param {string} form */
function numbersOf(plan, role, form) {
  if (role === "table") return width(plan.table, plan.columns, plan.missing === "noise");
  if (role === "location") return plan.unscaled.length;
  if (role === "clamping") return plan.clamping.length;
  if (role === "measures") {
    const told = plan.family === "multinomial" ? plan.blocks + 2 : Number(MEASURES.get(plan.family));
    return told + Number(plan.silent);
  }
  if (role !== "moments") return sizeOf(plan) + Number(form === "joint");
  const size = momentSize(plan);
  return plan.isWide ? 2 * plan.wide.length : (size * (size + 1)) / 2;
}

/** @param {string} role @param {boolean} wide */
function formsOf(role, wide) {
  if (["location", "clamping", "measures"].includes(role) || (role === "moments" && wide)) return ["box"];
  if (role === "moments") return ["moments"];
  if (role === "table") return ["blocks"];
  return role === "pilot" ? ["ball", "joint"] : ["ball"];
}

/** Refuse radii that don't keep the budget, and reports that are not what a device makes. @param {Plan} plan */
function checkReports(plan) {
  const size = plan.design.reduce((n, c) => n + check(c.tree, plan.columns, "the design"), 0);
  right(size <= MOST, "design");
  const { summing } = plan;
  right(plan.family !== "poisson" || plan.b === Number(Boolean(summing)), "sums"); // of sums the likelihood's score
  right(!["negative_binomial", "tobit"].includes(plan.family) || Boolean(summing), "sums"); // of learned parameters
  right(plan.roles.has("table") === plan.table.length > 0 && (!plan.table.length || plan.roles.size === 1), "table");
  if (summing && !plan.table.length) {
    const { top, yLow, yHigh, cuts, edges, scaled, shares } = /** @type {import("./sums.js").Sums} */ (plan.sums); // slopes of logits are ¼ at most
    right(!["logistic", "ordered"].includes(plan.family) || (top >= 0.25 && yLow >= 0 && yHigh <= 1), "sums");
    right(["hazards", "ordered"].includes(plan.family) === cuts.length > 0 && (plan.family === "hazards") === edges.length > 0 && !(cuts.length && (scaled || shares[3] > 0)), "sums");
    right(summing.FAMILIES.includes(plan.family) && !plan.isWide && !plan.unscaled.length, "sums");
  }
  for (const [name, { form, numbers, radius, groups }] of plan.roles) {
    const [told, own] = summing && name !== "table" ? summing.shape(plan, name) : [numbersOf(plan, name, form), form];
    right((summing && name !== "table" ? own === form : formsOf(name, plan.isWide).includes(form)) && numbers === told, name);
    right(groups === 1 || (!summing && (name === "location" || name === "main")), "groups");
    const fits = lattice.isPrivate(form, numbers, radius, plan.mu, plan.bits, summing && plan.sums ? summing.distance2(plan, name) : undefined);
    need(fits && distance2(plan.table, plan.columns) <= BigInt(radius) ** 2n, `the radius of '${name}' doesn't keep the budget mu: the noise would be too small.`);
  }
}

/** Columns that the design uses, in the plan's order. @param {Plan} plan @returns {Column[]} */
export function used(plan) {
  const found = new Set([...plan.design, plan.response].flatMap((c) => names(c.tree)).concat(names(plan.offset), plan.table.flatMap((b) => b.columns)));
  return [...plan.columns.values()].filter((c) => found.has(c.name));
}
