/**
 * A respondent's way through a study: plan, refusals, consent, state, report, memory, sending.
 *
 * Everything that may refuse comes before the answers are looked at together with a state. Afterwards nothing depends on what
 * they hold but the numbers of the report: no error, no wait, no message.
 * @module
 */

import { reported, unread } from "./answer.js";
import { RETRIED, invitation, transport, waits } from "./client.js";
import { Memory, StoreError, within } from "./memory.js";
import { placeOf, readState, readToken, reportBody } from "./messages.js";
import * as noise from "./noise.js";
import { readPlan } from "./plan.js";
import * as verifying from "./verify.js";
import { MessageError, base, bytes, escaped, hashOf, keyId, openEnvelope, signedBytes, unbase, unpack, loads } from "./wire.js";

/** @typedef {import("./plan.js").Plan} Plan */
/** @typedef {import("./messages.js").State} State */
/** @typedef {{role: string, state: number, numbers: number[], body: string, receipt: string}} Report what leaves the device */
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
   * @param {import("./client.js").Invitation} invited @param {Plan} plan @param {Uint8Array} planHash
   * @param {import("./messages.js").Token} token @param {Required<Omit<Options, "patience">> & Options & {limits: typeof LIMITS}} given
   */
  constructor(invited, plan, planHash, token, given) {
    this.plan = plan;
    this.planHash = planHash;
    this.invited = invited;
    this.token = token;
    this.given = given;
    /** @type {Report | null} what is stored and has not arrived yet */
    this.waiting = null;
    /** @type {string | null} receipt of what has arrived */
    this.receipt = null;
    /** @type {number[][] | null} budgets of a year's reports, this one's last: what the respondent agrees to */
    this.year = null;
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
      const plan = await readPlan(payload), planHash = await hashOf(payload);
      if (plan.study !== invited.slug) throw new RefusedError("the plan is one of another study.");
      const session = new Session(invited, plan, planHash, token, given);
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
    const { memory, limits } = this.given, { plan } = this;
    const seen = await memory.seen(this.invited.key, plan.study);
    if (seen && seen.plan !== base(this.planHash)) {
      throw new RefusedError("the plan is not the one that this device has seen before.");
    }
    const before = await memory.report(this.invited.key, plan.study);
    if (before) {
      this.receipt = before.receipt;
      this.waiting = before.body === null ? null : await shown(before.body);
      return;
    }
    const [p, q] = plan.mu.map(BigInt), [most, of] = limits.mu.map(BigInt);
    if (p * of > most * q) {
      throw new RefusedError(`mu = ${plan.mu[0] / plan.mu[1]} is more than this device allows.`);
    }
    if ((this.invited.token !== "") !== (plan.tokens === "issued")) {
      throw new RefusedError(`the study ${plan.tokens === "issued" ? "needs a" : "takes no"} token in the link.`);
    }
    this.year ??= [...await memory.year(Math.floor(this.given.clock())), plan.mu];
    if (!within(this.year, [limits.total])) {
      const together = Number(this.together.toPrecision(4)), cap = limits.total[0] / limits.total[1];
      throw new RefusedError(`it would be study ${this.year.length} of a year's, which cost mu = ${together} together, more than the ${cap} `
        + "that this device allows; answer it when a year has passed.");
    }
    if (await memory.used(base(this.token.id))) {
      throw new RefusedError("the token has been used by this device.");
    }
  }

  /**
   * Make the one report and store it; call it with the respondent's consent only.
   * @param {import("./answer.js").Answers} answers
   * @returns {Promise<Report>} of μ-GDP for these answers, for any state, honest or not; of another page, if it was faster
   */
  async prepare(answers) {
    return refusing(async () => {
      const { plan, planHash, token, invited, given } = this;
      if (this.receipt !== null || this.waiting) throw new RefusedError(ANSWERED);
      await this.look();
      if (this.receipt !== null) throw new RefusedError(ANSWERED);
      if (this.waiting) return this.waiting;
      const lacking = unread(plan, answers).map((c) => c.name);
      if (lacking.length && plan.missing === "refuse") {
        throw new RefusedError(`answers are missing or can't be read: ${lacking.map(quoted).join(", ")}.`);
      }
      const place = await placeOf(planHash, token), state = await this.turn(place.slot);
      const made = reported(plan, state, place, answers, given.words());
      const body = reportBody(planHash, state.number, made.role, token, made.values);
      // as long for every answer
      if (body.length > plan.limit) throw new RefusedError("the plan's own reports are too long for it; tell its contact.");
      const stored = await given.memory.keep(invited.key, plan.study, {
        plan: base(planHash), token: base(token.id), state: state.number, receipt: null, body,
        release: plan.releaseGroup, mu: plan.mu, time: state.time, clock: Math.floor(given.clock()),
      }, given.limits.yearly, /** @type {number[][]} */ (this.year));
      if (stored === null) {
        throw new RefusedError(`with this report the year's budget for ${quoted(plan.releaseGroup)} would be overspent, or `
          + "another study was answered meanwhile; then open the link again.");
      }
      if (stored.body === null) throw new RefusedError(ANSWERED);
      this.waiting = await shown(stored.body);
      return this.waiting;
    });
  }

  /** Refuse a study that asks nobody now, before anybody fills in anything. */
  async asks() {
    return refusing(async () => this.mustAsk((await this.present(this.given.clock() + PATIENCE)).state));
  }

  /** @param {number} until @returns {Promise<{payload: Uint8Array, state: State}>} */
  async present(until) {
    const { plan } = this, data = await got(this.given, `${this.invited.base}/state`, "the state", until);
    const payload = await opened(data, "state", plan.keys);
    return { payload, state: readState(payload, plan, this.planHash) };
  }

  /** @param {State} state */
  mustAsk({ time, open }) {
    if (!(this.plan.opens <= time && time <= this.plan.closes && open)) throw new RefusedError(CLOSED);
  }

  /** The state that this token answers: waits until it is its turn. @param {number} slot @returns {Promise<State>} */
  async turn(slot) {
    const { plan, given } = this, until = Math.min(this.until(plan.closes), given.clock() + PATIENCE);
    for (let attempt = 0; ; attempt += 1) {
      const { payload, state } = await this.present(until);
      await this.checkChain(state, base(await hashOf(payload)));
      this.mustAsk(state);
      if (slot < state.slots[1]) return state;
      const wait = waits(attempt + 4, 0);
      if (given.clock() + wait > until) throw new RefusedError("it isn't this token's turn yet; try again later.");
      await given.sleep(wait);
    }
  }

  /** Refuse a state that goes back, or that isn't the one after the one before. @param {State} state @param {string} own its hash */
  async checkChain(state, own) {
    const { memory } = this.given, { key } = this.invited, { study } = this.plan;
    const plan = base(this.planHash), before = base(state.before);
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
   * @returns {Promise<boolean>} whether the report has arrived; if not, it is stored, and sent by the next call
   */
  async send(failed = () => {}) {
    return refusing(async () => {
      const { plan, invited, given, waiting } = this;
      if (!waiting) throw new RefusedError(this.receipt === null ? "there is no report to send." : ANSWERED);
      const until = this.until(plan.closes + plan.grace);
      for (let attempt = 0; ; attempt += 1) {
        const { status, wait: asked } = await given.transport(`${invited.base}/reports`, waiting.body);
        if (status === 200 || status === 201) {
          // it has arrived, even if that can't be noted; the next call would send the same bytes
          await given.memory.arrived(invited.key, plan.study, waiting.receipt).catch(() => {});
          this.receipt = waiting.receipt;
          this.waiting = null;
          return true;
        }
        if (status === 409) throw new RefusedError(`${USED} ${quoted(plan.contact)}.`);
        if (!RETRIED.has(status)) throw new RefusedError(`the study's server doesn't take the report (status ${status}).`);
        const wait = waits(attempt, asked);
        if (given.clock() + wait > until) return false;
        failed(status, wait);
        await given.sleep(wait);
      }
    });
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
  const said = loads(bytes(body), "the report");
  const numbers = unpack(said.get("values"), "values"), receipt = base(await hashOf(bytes(body)));
  return { role: said.get("role"), state: said.get("state"), numbers, body, receipt };
}

/** Payload of an envelope that one of the keys has signed. @param {Uint8Array} data @param {"plan" | "state"} kind @param {Uint8Array[]} keys */
async function opened(data, kind, keys) {
  const { payload, signatures } = openEnvelope(data, kind), message = signedBytes(kind, payload), named = new Map();
  for (const key of keys) named.set(await keyId(key), key);
  for (const { kid, sig } of signatures) {
    if (named.has(kid) && (await verifying.verify(named.get(kid), message, sig))) return payload;
  }
  throw new RefusedError(`the ${kind} is not signed by the key that it should be signed by; ask who invited you.`);
}

/** Get a message, again and again while that may help. @param {any} given @param {string} url @param {string} what @param {number} until @returns {Promise<Uint8Array>} */
async function got(given, url, what, until) {
  for (let attempt = 0; ; attempt += 1) {
    const { status, body, wait: asked } = await given.transport(url, null);
    if (status === 200) return body;
    const wait = waits(attempt, asked);
    if (!RETRIED.has(status) || given.clock() + wait > until) {
      const said = status ? `status ${status}` : "no connection";
      throw new RefusedError(`${what} can't be had from the study's server (${said}); try again later.`);
    }
    await given.sleep(wait);
  }
}
