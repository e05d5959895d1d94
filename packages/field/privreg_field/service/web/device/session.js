/**
 * A respondent's way through a study: plan, refusals, consent, state, report, memory, sending.
 *
 * Everything that may refuse comes before the answers are looked at together with a state. Afterwards nothing depends on what
 * they hold but the numbers of the report: no error, no wait, no message.
 * @module
 */

import { reported, unread, wrong } from "./answer.js";
import { RETRIED, invitation, meaning, transport, waits } from "./client.js";
import { Memory, StoreError, within } from "./memory.js";
import { askOf, isOf, placeOf, readState, readToken, reportBody } from "./messages.js";
import * as noise from "./noise.js";
import { wordOf } from "./analyses.js";
import { readPlans } from "./plan.js";
import * as verifying from "./verify.js";
import { MessageError, base, bytes, escaped, hashOf, keyId, loads, openEnvelope, same, signedBytes, unbase, unpack } from "./wire.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./messages.js").State} State */
/**
 * What leaves the device. Of two collectors each gets a line of `body`, and has its own receipt; what they get are sealed
 * random numbers, none of which are here.
 * @typedef {{role: string, state: number, numbers: number[], body: string, receipt: string}} Report
 */
/**
 * @typedef {object} Options
 * @property {Memory} [memory]
 * @property {import("./client.js").Transport} [transport]
 * @property {(seconds: number) => Promise<void>} [sleep]
 * @property {() => number} [clock] seconds since 1970 by this device; no message carries it
 * @property {number} [patience] seconds to go on sending; by default until the study counts no more reports
 * @property {Partial<typeof LIMITS>} [limits] fractions: budgets that this device
 *   spends at most, μ of one report and √Σμ² of a year's: to studies of one release group or analyst (yearly), to all (total)
 * @property {() => noise.Words} [words] for tests: random words
 */

/** The device refuses, on public grounds; nothing was sent. `missing` says whether the browser lacks something. */
export class RefusedError extends Error {
  /** @param {string} text @param {boolean} [missing] */
  constructor(text, missing = false) {
    super(escaped(text));
    this.missing = missing;
  }
}

/** Seconds in which a plan must be had, and a state that asks: somebody waits before the page. */
const PATIENCE = 60;
/** Attempts, of a minute together, in which a collector may still be closing a batch that the other has closed. */
const CLOSING = 6;
const LIMITS = { mu: [2, 1], yearly: [2, 1], total: [2, 1] }; // all together no more than one study may cost
const CLOSED = "the study doesn't ask anybody now: it is not open yet, or it has closed.";
const USED = "the link has been used: a report has arrived before, and yours was not taken. If that was not you, tell";
const ANSWERED = "this device has answered the study; every device answers once.";

/** An analyst's text among the device's words. @param {string} text */
const quoted = (text) => JSON.stringify(text);

/** @template T @param {() => Promise<T>} work @returns {Promise<T>} */
async function refusing(work) {
  try {
    return await work();
  } catch (e) {
    const missing = e instanceof verifying.MissingError;
    const known = [MessageError, StoreError, noise.NoiseError].some((kind) => e instanceof kind);
    if (known || missing) throw new RefusedError(/** @type {Error} */ (e).message, missing);
    throw e;
  }
}

/** One respondent and one study; made by `begin`. */
export class Session {
  /**
   * @param {import("./client.js").Invitation} invited @param {Plan[]} plans one for each analysis @param {Uint8Array} planHash
   * @param {import("./messages.js").Token} token @param {Required<Omit<Options, "patience">> & Options & {limits: typeof LIMITS}} given
   */
  constructor(invited, plans, planHash, token, given) {
    this.plans = plans;
    /** @type {Plan[]} the analyses that this device answers: all, or the one that it was dealt to */
    this.mine = [];
    /** The first of them: what the respondent is asked and told is alike in all. */
    this.plan = plans[0];
    /** @type {{plan: Plan, report: Report}[]} what is stored, by analysis, and has not arrived yet */
    this.pending = [];
    /** @type {Map<string, string | null>} receipts by analysis, of what has arrived; null of what is lost */
    this.receipts = new Map();
    /** @type {Map<Plan, number>} states for which two collectors deleted a report */
    this.stale = new Map();
    this.planHash = planHash;
    this.invited = invited;
    this.token = token;
    this.given = given;
    /** @type {Report | null} what is stored and has not arrived yet */
    this.waiting = null;
    /** @type {string | null} receipt of what has arrived */
    this.receipt = null;
    /** @type {number | null} number of a state for which two collectors deleted the report: a later one is answered, at no cost */
    this.again = null;
    /** @type {import("./answer.js").Answers | null} what a later state would be answered with, until a report has arrived */
    this.answers = null;
    /** @type {number[][] | null} budgets of a year's reports, this one's last: what the respondent agrees to */
    this.year = null;
    /** @type {typeof import("./shares.js") | null} what makes shares for two collectors; other studies don't load it */
    this.sharing = null;
  }

  /**
   * Open an invitation: verify the plan, look into the memory, and refuse what must be refused.
   * @param {string} link https://host/studies/{name}/#k={key of the analyst}&t={token}
   * @param {Options} [options]
   * @returns {Promise<Session>} with `waiting` or `receipt` set if this device has a report to the study
   */
  static async begin(link, options = {}) {
    return refusing(async () => {
      const invited = invitation(link);
      await verifying.check();
      await noise.check();
      const root = keyIn(invited.key);
      const token = invited.token
        ? readToken(invited.token) : { key: 0, id: noise.secret(16), mac: new Uint8Array(16) };
      const given = {
        memory: options.memory ?? new Memory(), transport, clock: () => Date.now() / 1000,
        sleep: (/** @type {number} */ s) => new Promise((/** @type {any} */ done) => setTimeout(done, 1000 * s)),
        words: () => new noise.Words(), ...options, limits: { ...LIMITS, ...options.limits },
      };
      const until = given.clock() + Math.min(options.patience ?? PATIENCE, PATIENCE);
      const payload = await opened(await got(given, `${invited.base}/plan`, "the plan", until), "plan", [root]);
      const plans = await readPlans(payload), [plan] = plans, planHash = await hashOf(payload);
      if (plan.study !== invited.slug) throw new RefusedError("the plan is one of another study.");
      const session = new Session(invited, plans, planHash, token, given);
      session.sharing = plan.summing && await import("./shares.js");
      await session.look();
      return session;
    });
  }

  /** √Σμ² of a year's reports to whatever studies, with this one. */
  get together() {
    return Math.hypot(...(this.year ?? []).map(([p, q]) => p / q));
  }

  /** Look into the memory; without a report there, check what the plan asks. */
  async look() {
    const { memory, limits } = this.given, { plans, invited: { key } } = this;
    const hashes = new Set(plans.map((p) => base(p.hash)));
    if (!(await memory.plans(key, plans[0].study)).every((known) => hashes.has(known))) {
      throw new RefusedError("the plan is not the one that this device has seen before.");
    }
    const before = await memory.reports(key, plans[0].study), [first] = before.values();
    await this.deal(before);
    const { plan } = this;
    if (before.size && !this.stale.size) {
      if (!this.pending.length && [...this.receipts.values()].includes(null)) throw new RefusedError(ANSWERED); // one of two deleted its part
      this.receipt = this.pending.length ? null : this.mine.map((p) => this.receipts.get(p.slug)).join(" ");
    }
    this.waiting = combined(this.pending);
    if (before.size && (this.pending.length || !this.stale.size)) return;
    if (plan.collectors.length) await /** @type {any} */ (this.sharing).check();
    if (first) {
      const [own] = first.token.split(".");
      if (base(this.token.id) !== own) {
        if (this.invited.token) throw new RefusedError("the study was begun with another token on this device; open that link.");
        this.token = { key: 0, id: unbase(own, "the token"), mac: new Uint8Array(16) };
      }
      this.year ??= await memory.year(Math.floor(this.given.clock()));
      return;
    }
    const [p, q] = plan.together.map(BigInt), [most, of] = limits.mu.map(BigInt);
    if (p * of > most * q) {
      throw new RefusedError(`mu = ${plan.together[0] / plan.together[1]} is more than this device allows.`);
    }
    if ((this.invited.token !== "") !== (plan.tokens === "issued")) {
      throw new RefusedError(`the study ${plan.tokens === "issued" ? "needs a" : "takes no"} token in the link.`);
    }
    this.year ??= [...await memory.year(Math.floor(this.given.clock())), plan.together];
    if (!within(this.year, [limits.total])) {
      const together = Number(this.together.toPrecision(4)), cap = limits.total[0] / limits.total[1];
      throw new RefusedError(`it would be study ${this.year.length} of a year's, which cost mu = ${together} together, more than the ${cap} `
        + "that this device allows; answer it when a year has passed.");
    }
    if (await memory.used(base(this.token.id))) {
      throw new RefusedError("the token has been used by this device.");
    }
    this.addresses(); // refuses what is neither https nor this machine
    for (const one of plan.collectors) {
      if ([one.key, one.seal].some((key) => same(keyIn(this.invited.key), key))) throw new RefusedError("the analyst is one of the plan's two collectors, who must be others.");
      await /** @type {any} */ (this.sharing).seal(new Uint8Array(), one.seal, new Uint8Array()); // refuses a key that everybody could open shares of
    }
  }

  /** What of a study's reports is to be sent, has arrived, or was deleted; and which analyses are answered. @param {Map<string, import("./memory.js").Stored>} before */
  async deal(before) {
    const { plans } = this, word = await wordOf(this.planHash, this.token.id);
    const dealt = plans.filter(({ part: { people: [low, high] } }) => low <= word && word < high);
    this.mine = before.size ? plans.filter((p) => before.has(p.slug)) : dealt;
    [this.plan] = this.mine;
    this.pending = [];
    this.stale = new Map();
    for (const plan of this.mine) {
      const { body, receipt, state } = before.get(plan.slug) ?? { body: undefined, receipt: null, state: 0 };
      if (body === undefined || this.receipts.has(plan.slug)) continue;
      if (body === null) this.receipts.set(plan.slug, receipt);
      else if (body === "") this.stale.set(plan, state);
      else this.pending.push({ plan, report: await shown(body) });
    }
    this.again = this.stale.size ? [...this.stale.values()][0] : null;
  }

  /**
   * Make the one report and store it; call it with the respondent's consent only.
   * @param {import("./answer.js").Answers} answers
   * @returns {Promise<Report>} of μ-GDP for these answers, for any state, honest or not; of another page, if it was faster
   */
  async prepare(answers) {
    return refusing(async () => {
      const { plan, token, invited, given } = this;
      if (this.receipt !== null || this.waiting) throw new RefusedError(ANSWERED);
      await this.look();
      if (this.receipt !== null) throw new RefusedError(ANSWERED);
      if (this.waiting) return this.waiting;
      const bad = wrong(plan, answers), lacking = unread(plan, answers).map((c) => c.name);
      if (bad.length) throw new RefusedError(`${bad.join("; ")}. Correct the answers, or leave out what you don't answer.`);
      if (lacking.length && plan.missing === "refuse") {
        throw new RefusedError(`answers are missing: ${lacking.map(quoted).join(", ")}.`);
      }
      const todo = this.stale.size ? [...this.stale.keys()] : this.mine, made = new Map();
      for (const one of todo) {
        const place = await placeOf(one.hash, token), [state, stateHash] = await this.turn(one, place.slot);
        made.set(one, { state, bodies: await this.bodies(one, state, stateHash, place, answers) });
      }
      // as long for every answer
      if ([...made.values()].some(({ bodies }) => bodies.some((/** @type {string} */ b) => b.length > plan.limit))) throw new RefusedError("the plan's own reports are too long for it; tell its contact.");
      this.answers = plan.collectors.length ? answers : null;
      let stored = true;
      if (this.stale.size) for (const [one, { state, bodies }] of made) await given.memory.again(invited.key, one.slug, state.number, bodies.join("\n"));
      else {
        const time = Math.max(...[...made.values()].map(({ state }) => state.time)), clock = Math.floor(given.clock());
        stored = await given.memory.keep(invited.key, new Map([...made].map(([one, { state, bodies }], k) => [one.slug, {
          plan: base(one.hash), token: `${base(token.id)}${k ? `.${k}` : ""}`, state: state.number, receipt: null, body: bodies.join("\n"),
          release: plan.releaseGroup, mu: k ? [0, 1] : plan.together, time, clock,
        }])), given.limits.yearly, /** @type {number[][]} */ (this.year));
      }
      if (!stored) {
        throw new RefusedError(`with this report the year's budget for ${quoted(plan.releaseGroup)} would be overspent, or `
          + "another study was answered meanwhile; then open the link again.");
      }
      await this.deal(await given.memory.reports(invited.key, plan.study));
      if (!this.pending.length) throw new RefusedError(ANSWERED);
      this.waiting = combined(this.pending);
      return /** @type {Report} */ (this.waiting);
    });
  }

  /** What is posted: one text, or one for each of two collectors. @param {Plan} plan @param {State} state @param {Uint8Array} stateHash @param {import("./messages.js").Place} place @param {import("./answer.js").Answers} answers */
  async bodies(plan, state, stateHash, place, answers) {
    const { token, given } = this, ask = askOf(state, place);
    if ("ball" in ask && this.sharing) return this.sharing.shareBodies(plan, plan.hash, state.number, stateHash, ask, token, answers);
    const made = reported(plan, state, place, answers, given.words());
    return [reportBody(plan.hash, state.number, made.role, token, made.values)];
  }

  /** Refuse a study that asks nobody now, before anybody fills in anything. */
  async asks() {
    return refusing(async () => {
      for (const plan of this.mine) this.mustAsk((await this.present(plan, this.given.clock() + PATIENCE)).state);
    });
  }

  /** @param {Plan} plan @param {number} until @returns {Promise<{payload: Uint8Array, state: State}>} */
  async present(plan, until) {
    const data = await got(this.given, `${this.invited.base}${plan.path}/state`, "the state", until);
    const payload = await opened(data, "state", plan.keys, Math.max(plan.collectors.length, 1));
    return { payload, state: readState(payload, plan, plan.hash) };
  }

  /** @param {State} state */
  mustAsk({ time, open }) {
    if (!(this.plan.opens <= time && time <= this.plan.closes && open)) throw new RefusedError(CLOSED);
  }

  /** The state that this token answers, and its hash: waits until it is its turn. @param {Plan} plan @param {number} slot @returns {Promise<[State, Uint8Array]>} */
  async turn(plan, slot) {
    const { given } = this, until = Math.min(this.until(plan.closes), given.clock() + PATIENCE);
    for (let attempt = 0; ; attempt += 1) {
      const { payload, state } = await this.present(plan, until), own = await hashOf(payload);
      await this.checkChain(plan, state, base(own));
      this.mustAsk(state);
      if (slot < state.slots[1] && state.number > (this.stale.get(plan) ?? -1)) return [state, own];
      const wait = waits(attempt + 4, 0);
      if (given.clock() + wait > until) throw new RefusedError("it isn't this token's turn yet; try again later.");
      await given.sleep(wait);
    }
  }

  /** Refuse a state that goes back, or that isn't the one after the one before. @param {Plan} of @param {State} state @param {string} own its hash */
  async checkChain(of, state, own) {
    const { memory } = this.given, { key } = this.invited, study = of.slug;
    const plan = base(of.hash), before = base(state.before);
    if (state.number === 0 && before !== plan) throw new RefusedError("the first state doesn't follow the plan.");
    const seen = await memory.seen(key, study);
    if (seen) {
      const back = state.number < seen.number || state.time < seen.time;
      const other = state.number === seen.number && own !== seen.state;
      const torn = state.number === seen.number + 1 && before !== seen.state;
      if (back || other || torn) {
        throw new RefusedError("the study's states go back, or are others than seen before.");
      }
    }
    const known = await memory.note(key, study, { plan, number: state.number, state: own, time: state.time });
    if (known.plan !== plan || known.number !== state.number || known.state !== own) {
      throw new RefusedError("another page of this device has seen another state; try again.");
    }
  }

  /**
   * Send the stored bytes until they have arrived, or it is of no use.
   * @param {(status: number, wait: number) => void} [failed] is told of every attempt that failed, and the seconds to the next
   * @returns {Promise<boolean>} whether the report has arrived; if not, it is stored, and sent by the next call, or, with
   *   `again` set, two collectors have deleted it: the answers are asked for once more
   */
  async send(failed = () => {}) {
    return refusing(async () => {
      for (;;) {
        if (!this.waiting) throw new RefusedError(this.receipt === null ? "there is no report to send." : ANSWERED);
        const refused = new Set();
        let deleted = false;
        for (const hurry of this.pending.length > 1 ? [true, false] : [false]) { // none waits for one that doesn't arrive
          for (const one of [...this.pending]) {
            try {
              const arrived = await this.post(one.plan, one.report, failed, hurry);
              if (arrived !== false) this.pending = this.pending.filter((p) => p !== one);
              deleted ||= arrived === null;
            } catch (e) {
              if (!(e instanceof RefusedError)) throw e;
              refused.add(e.message);
              if (this.receipts.has(one.plan.slug)) this.pending = this.pending.filter((p) => p !== one); // it is lost
            }
          }
        }
        this.waiting = combined(this.pending);
        if (refused.size) throw new RefusedError([...refused].join(" "));
        if (this.stale.size) {
          if (!deleted || this.answers === null) return false;
          await this.prepare(this.answers);
          continue;
        }
        if (this.waiting) return false;
        this.answers = null;
        this.receipt = this.mine.map((p) => this.receipts.get(p.slug)).join(" ");
        return true;
      }
    });
  }

  /** Where a report is posted: at the study's server, or its shares at each collector's. */
  addresses(plan = this.plan) {
    const { invited } = this;
    return plan.summing ? plan.summing.addresses(plan) : [`${invited.base}${plan.path}/reports`];
  }

  /** @param {Plan} plan @param {Report} report @param {(status: number, wait: number) => void} failed @param {boolean} hurry whether to try once @returns {Promise<boolean | null>} null if two collectors deleted it */
  async post(plan, report, failed, hurry) {
    const { given } = this, bodies = report.body.split("\n"), until = this.until(plan.closes + plan.grace);
    const urls = this.addresses(plan);
    /** @type {Map<number, boolean>} by place: whether it is kept or summed there, or was deleted unsummed */
    let arrived = new Map();
    for (let attempt = 0; arrived.size < bodies.length; ) {
      let wait = 0, code = 0;
      for (const [k, body] of bodies.entries()) {
        if (arrived.has(k)) continue;
        const got = await given.transport(urls[k], body), taken = got.status === 200 || got.status === 201;
        if (taken && !([...arrived.values()].includes(false) && attempt < CLOSING)) arrived.set(k, true);
        else if (got.status === 410 && (await this.isSigned(plan, "lost", k, report.state, body, got.body))) await this.lost(plan, k);
        else if (got.status === 410 && (await this.isSigned(plan, "unsummed", k, report.state, body, got.body))) {
          arrived = new Map([...arrived].filter(([, there]) => !there)).set(k, false); // ask the other anew
          attempt = 0;
        } else if (got.status === 409) throw new RefusedError(`${USED} ${quoted(plan.contact)}.`);
        else if (!taken && !RETRIED.has(got.status)) throw new RefusedError(`${plan.collectors[k] ? quoted(plan.collectors[k].name) : "the study's server"} doesn't take the report: ${meaning(got.status)}; tell ${quoted(plan.contact)}.`);
        else [wait, code] = [Math.max(wait, waits(attempt, got.wait)), got.status];
      }
      if (!wait) continue;
      if (hurry || given.clock() + wait > until) return false;
      failed(code, wait);
      await given.sleep(wait);
      attempt += 1;
    }
    return this.ended(plan, report, bodies.map((_, k) => /** @type {boolean} */ (arrived.get(k))));
  }

  /** Whether a collector has signed that this token's share is "unsummed", deleted and in no sum, or "lost". @param {Plan} plan @param {"unsummed" | "lost"} kind @param {number} place @param {number} state @param {string} sent @param {Uint8Array} said */
  async isSigned(plan, kind, place, state, sent, said) {
    const one = plan.collectors[place];
    try {
      const { id } = readToken(loads(bytes(sent), "the report").get("token"));
      return one !== undefined
        && isOf(await opened(said, kind, [one.key]), "ab"[place], plan.hash, state, id);
    } catch (e) {
      if (e instanceof MessageError || e instanceof RefusedError) return false;
      throw e;
    }
  }

  /** A collector has given up the batch of a report: it is never answered for again. @param {Plan} plan @param {number} place @returns {Promise<never>} */
  async lost(plan, place) {
    const { invited, given: { memory } } = this;
    this.answers = null;
    this.receipts.set(plan.slug, null);
    await memory.arrived(invited.key, plan.slug, null).catch(() => {});
    throw new RefusedError(`your report is lost: ${quoted(plan.collectors[place].name)} has given up the batch that it was for, and adds up `
      + "nothing of it. You can't answer again, as two reports could tell more of you than one. You need do nothing; if you "
      + `have questions, tell ${quoted(plan.contact)} that your batch was lost.`);
  }

  /** Remember what was said of a report, and delete its bytes. @param {Plan} plan @param {Report} report @param {boolean[]} arrived @returns {Promise<boolean | null>} */
  async ended(plan, { body, state, receipt }, arrived) {
    const { invited, given: { memory } } = this;
    if (!arrived.includes(true)) {
      await memory.unsummed(invited.key, plan.slug, body);
      this.stale.set(plan, state);
      this.again ??= state;
      return null;
    }
    const whole = !arrived.includes(false);
    this.receipts.set(plan.slug, whole ? receipt : null);
    // it has arrived, even if that can't be noted; the next call would send the same bytes
    await memory.arrived(invited.key, plan.slug, whole ? receipt : null).catch(() => {});
    if (whole) return true;
    this.answers = null;
    const [late, other] = arrived[0] ? [1, 0] : [0, 1], name = (/** @type {number} */ k) => quoted(plan.collectors[k].name);
    throw new RefusedError(`your report came too late for ${name(late)}, who has deleted its part; ${name(other)} has the other part, `
      + "random numbers without the first. Your answers don't count, and you can't answer again: a second report beside "
      + "half of the first could tell of you.");
  }

  /** @param {number} end */
  until(end) {
    const { patience, clock } = this.given;
    return patience === undefined ? end : Math.min(end, clock() + patience);
  }
}

/** The analyst's public key that a link pins. @param {string} text @returns {Uint8Array} */
function keyIn(text) {
  try {
    const root = unbase(text, "the key");
    if (root.length === 32) return root;
  } catch (e) {
    if (!(e instanceof MessageError)) throw e;
  }
  throw new RefusedError("the link is incomplete: open it again from your invitation, whole.");
}

/** What a stored report sends, for the respondent's eyes. @param {string} body @returns {Promise<Report>} */
async function shown(body) {
  const lines = body.split("\n"), said = loads(bytes(lines[0]), "the report"), hashes = [];
  for (const line of lines) hashes.push(base(await hashOf(bytes(line))));
  const numbers = said.has("values") ? unpack(said.get("values"), "values") : [];
  return { role: said.get("role"), state: said.get("state"), numbers, body, receipt: hashes.join(" ") };
}

/** What is sent to all analyses, as one. @param {{report: Report}[]} pending @returns {Report | null} */
function combined(pending) {
  if (pending.length < 2) return pending[0]?.report ?? null;
  const reports = pending.map((one) => one.report), all = (/** @type {"body" | "receipt"} */ what, /** @type {string} */ by) => reports.map((r) => r[what]).join(by);
  return { ...reports[0], numbers: reports.flatMap((r) => r.numbers), body: all("body", "\n"), receipt: all("receipt", " ") };
}

/** Payload of an envelope that so many of the keys have signed. @param {Uint8Array} data @param {"plan" | "state" | "unsummed" | "lost"} kind @param {Uint8Array[]} keys @param {number} [needed] */
async function opened(data, kind, keys, needed = 1) {
  const { payload, signatures } = openEnvelope(data, kind), message = signedBytes(kind, payload), named = new Map(), good = new Set();
  for (const key of keys) named.set(await keyId(key), key);
  for (const { kid, sig } of signatures) {
    if (named.has(kid) && (await verifying.verify(named.get(kid), message, sig))) good.add(kid);
  }
  if (good.size >= needed) return payload;
  throw new RefusedError(`the ${kind} is not signed by ${needed > 1 ? "both keys" : "the key"} that it should be signed by; ask who invited you.`);
}

/** Get a message, again and again while that may help. @param {any} given @param {string} url @param {string} what @param {number} until @returns {Promise<Uint8Array>} */
async function got(given, url, what, until) {
  for (let attempt = 0; ; attempt += 1) {
    const { status, body, wait: asked } = await given.transport(url, null);
    if (status === 200) return body;
    const wait = waits(attempt, asked);
    if (!RETRIED.has(status) || given.clock() + wait > until) {
      throw new RefusedError(`${what} can't be had from the study's server: ${meaning(status)}; try again later.`);
    }
    await given.sleep(wait);
  }
}
