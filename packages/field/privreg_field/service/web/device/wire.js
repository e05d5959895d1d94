/**
 * How messages are written: strict JSON, hex floats, base64url, signed envelopes.
 *
 * Nothing passes through a parser of decimal floats, and JSON.parse is not used: it lets names pass that come twice, and
 * does not tell 1 from 1.0.
 * @module
 */

export const VERSION = 1;
/** Absolute value of a real in a message, at most. */
export const LARGEST = 2 ** 60;
/** Bytes of a plan or a state, at most. */
export const LONGEST = 1 << 20;
const DEEPEST = 64;

/** A message can't be read, or says what this version doesn't know. */
export class MessageError extends Error {}

/** Whether a text shows all that it has, in one line or several. @param {any} text @param {boolean} [lines] */
export const isSeen = (text, lines) => String(text).replaceAll("\n", lines ? " " : "\n").search(HIDDEN) < 0;

/** A text with what isn't seen as codes. @param {string} text */
export const escaped = (text) => text.replace(HIDDEN, (c) => `\\u{${/** @type {number} */ (c.codePointAt(0)).toString(16)}}`);

// --- JSON ---------------------------------------------------------------------------------------------------

const NUMBER = /-?(?:0|[1-9][0-9]*)/y;
const BLANK = /[ \t\n\r]*/y;
// eslint-disable-next-line no-control-regex
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
/** Characters that aren't seen: controls, turns of direction, no width; joiners where no script needs them. */
// eslint-disable-next-line no-control-regex
const HIDDEN = /[\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?<![\u0300-\u1fff\u2100-\u{10ffff}])[\u200c\u200d]|[\u200c\u200d](?![\u0300-\u1fff\u2100-\u{10ffff}])/gu;
const WORDS = new Map([["true", true], ["false", false], ["null", null]]);

/**
 * Read JSON: UTF-8, no name twice, integers within ± 2⁵³, no other numbers. Objects become Maps.
 * @param {Uint8Array} data
 * @param {string} what of what message, for the error
 * @param {number} [longest] bytes, at most
 * @returns {any}
 */
export function loads(data, what, longest = LONGEST) {
  const wrong = new MessageError(`${what} is too long, or no JSON of this protocol.`);
  let text = "", at = 0;
  if (data.length > longest) throw wrong;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    throw wrong;
  }

  /** @param {RegExp} pattern */
  function match(pattern) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found && found[0];
  }

  /** @param {string} sign */
  function sees(sign) {
    match(BLANK);
    if (text[at] !== sign) return false;
    at += 1;
    return true;
  }

  function string() {
    match(BLANK);
    const found = match(STRING);
    const out = found === null ? "\ud800" : JSON.parse(found);
    if (/\p{Surrogate}/u.test(out)) throw wrong;
    return out;
  }

  /** @param {number} deep @returns {any} */
  function value(deep) {
    if (deep > DEEPEST) throw wrong;
    match(BLANK);
    if (text[at] === '"') return string();
    if (sees("[")) {
      /** @type {any[]} */
      const out = [];
      if (sees("]")) return out;
      do out.push(value(deep + 1)); while (sees(","));
      if (!sees("]")) throw wrong;
      return out;
    }
    if (sees("{")) {
      const out = new Map();
      if (sees("}")) return out;
      do {
        const name = string();
        if (out.has(name) || !sees(":")) throw wrong;
        out.set(name, value(deep + 1));
      } while (sees(","));
      if (!sees("}")) throw wrong;
      return out;
    }
    for (const [word, meant] of WORDS) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return meant;
      }
    }
    const digits = match(NUMBER);
    if (digits === null || digits.length > 17 || /[.eE]/.test(text[at] ?? "")) throw wrong;
    const whole = Number(digits); // 2⁵³ + 1 would become 2⁵³
    if (!Number.isSafeInteger(whole) && !/^-?9007199254740992$/.test(digits)) throw wrong;
    return whole + 0;
  }

  const out = value(1);
  match(BLANK);
  if (at !== text.length) throw wrong;
  return out;
}

/** Refuse a message. @param {any} fine @param {string} text @returns {asserts fine} */
export function need(fine, text) {
  if (!fine) throw new MessageError(text);
}

/** A JSON object whose members are taken out one by one, so that none is left unread. */
export class Record {
  /** @param {any} value what was parsed @param {string} what its place, for errors */
  constructor(value, what) {
    need(value instanceof Map, `${what} must be an object.`);
    this.what = what;
    /** @type {Map<string, any>} */
    this.left = new Map(value);
  }

  /** @param {any} fine @param {string} name */
  must(fine, name) {
    need(fine, `'${name}' of ${this.what} is not as this version knows it.`);
  }

  /** Take a member, which must be fine; all are required. @param {string} name @param {(value: any) => boolean} [fine] @returns {any} */
  take(name, fine = () => true) {
    const out = this.left.get(name);
    this.must(this.left.delete(name) && fine(out), name);
    return out;
  }

  /** @param {string} name @param {number} [longest] characters @param {boolean} [lines] whether it may have several @returns {string} */
  text(name, longest = 4096, lines = false) {
    return this.take(name, (v) => typeof v === "string" && v !== "" && [...v].length <= longest && isSeen(v, lines));
  }

  /** @param {string} name @param {number} low @param {number} high @returns {number} */
  integer(name, low, high) {
    return this.take(name, (v) => isInt(v, low, high));
  }

  /** @param {string} name @returns {boolean} */
  flag(name) {
    return this.take(name, (v) => typeof v === "boolean");
  }

  /** @template {string} T @param {string} name @param {readonly T[]} allowed @returns {T} */
  choice(name, allowed) {
    return this.take(name, (v) => allowed.includes(v));
  }

  /** Take a reserved member, which has one value in this version. @param {string} name @param {any} only */
  fixed(name, only) {
    this.take(name, (v) => v === only);
  }

  /** @param {string} name @param {boolean} [infinite] @returns {number} */
  real(name, infinite) {
    return numberOf(this.take(name), `'${name}' of ${this.what}`, infinite);
  }

  /** @param {string} name @param {number} [count] @returns {number[]} */
  reals(name, count) {
    return this.items(name, count).map((v) => numberOf(v, `'${name}' of ${this.what}`));
  }

  /** @param {string} name @param {number} [count] @param {number} [most] @returns {any[]} */
  items(name, count, most = 1 << 16) {
    return this.take(name, (v) => Array.isArray(v) && v.length <= most && v.length === (count ?? v.length));
  }

  /** @param {string} name @param {number} low @param {number} high @param {number} [count] @returns {number[]} */
  integers(name, low, high, count) {
    const out = this.items(name, count);
    this.must(out.every((v) => isInt(v, low, high)), name);
    return out;
  }

  /** @param {string} name @param {number} length @returns {Uint8Array} */
  binary(name, length) {
    const out = unbase(this.take(name), `'${name}' of ${this.what}`);
    this.must(out.length === length, name);
    return out;
  }

  /** Take an object. @param {string} name */
  object(name) {
    return new Record(this.take(name), `'${name}' of ${this.what}`);
  }

  /** Take an object, or null. @param {string} name */
  optional(name) {
    return this.left.get(name) === null ? this.take(name) : this.object(name);
  }

  /** Refuse members that nobody took; those that begin with x_ say nothing that a device acts on. */
  done() {
    const known = [...this.left.keys()].every((name) => name.startsWith("x_"));
    need(known, `${this.what} has a member that this version doesn't know.`);
  }
}

/** @param {any} value @param {number} low @param {number} high */
export function isInt(value, low, high) {
  return Number.isInteger(value) && value >= low && value <= high;
}

// --- numbers, bytes -----------------------------------------------------------------------------------------

const HEX = /^(-?)0x([01])(?:\.([0-9a-f]{1,13}))?p([+-]?[0-9]{1,4})$/;
const view = new DataView(new ArrayBuffer(8));

/** 2ⁿ, n from −1022 to 1023. @param {number} n */
function power(n) {
  view.setUint32(0, (n + 1023) << 20);
  view.setUint32(4, 0);
  return view.getFloat64(0);
}

/**
 * Read a C99 hex float such as "0x1.8p+1", at most 2⁶⁰ in absolute value, rounded once to the nearest double.
 * @param {any} value
 * @param {string} what
 * @param {boolean} [infinite] whether "inf" and "-inf", and any finite number, are allowed
 * @returns {number}
 */
export function numberOf(value, what, infinite = false) {
  if (infinite && (value === "inf" || value === "-inf")) return value === "inf" ? Infinity : -Infinity;
  const found = typeof value === "string" ? HEX.exec(value) : null;
  let out = NaN;
  if (found !== null && Math.abs(Number(found[4])) <= 1074) {
    const digits = found[3] ?? "";
    const whole = parseInt(found[2] + digits, 16); // below 2⁵³, so exact
    const k = Number(found[4]) - 4 * digits.length;
    // below 2⁻¹⁰²² in two steps, of which only the second rounds
    if (whole === 0) out = 0;
    else if (k > 1023) out = Infinity;
    else out = k >= -1022 ? whole * power(k) : whole * power(k + 537) * power(-537);
    if (found[1]) out = -out;
  }
  need(Math.abs(out) <= LARGEST || (infinite && Number.isFinite(out)), `${what} must be a hex float, at most 2^60.`);
  return out;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Write bytes as base64url without padding. @param {Uint8Array} data */
export function base(data) {
  let out = "";
  for (let i = 0; i < data.length; i += 3) {
    const three = (data[i] << 16) | ((data[i + 1] ?? 0) << 8) | (data[i + 2] ?? 0);
    const count = Math.min(data.length - i, 3) + 1;
    for (let j = 0; j < count; j += 1) out += DIGITS[(three >> (18 - 6 * j)) & 63];
  }
  return out;
}

/**
 * Read base64url without padding; only the one spelling of the bytes.
 * @param {any} value
 * @param {string} what
 * @returns {Uint8Array}
 */
export function unbase(value, what) {
  const wrong = `${what} must be base64url without padding.`;
  need(typeof value === "string" && value.length % 4 !== 1, wrong);
  const out = new Uint8Array((value.length * 3) >> 2);
  let bits = 0, held = 0, at = 0;
  for (const c of value) {
    const place = DIGITS.indexOf(c);
    need(place >= 0, wrong);
    held = ((held << 6) | place) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[at] = held >> bits;
      at += 1;
    }
  }
  need(!(held & ((1 << bits) - 1)), wrong);
  return out;
}

/** Write integers as base64url of little-endian int32. @param {readonly number[]} values */
export function pack(values) {
  const out = new DataView(new ArrayBuffer(4 * values.length));
  values.forEach((v, i) => out.setInt32(4 * i, v, true));
  return base(new Uint8Array(out.buffer));
}

/** Read integers of base64url. @param {any} value @param {string} what @returns {number[]} */
export function unpack(value, what) {
  const data = unbase(value, what);
  need(data.length % 4 === 0, `${what} must be int32 numbers.`);
  const from = new DataView(data.buffer);
  return Array.from({ length: data.length / 4 }, (_, i) => from.getInt32(4 * i, true));
}

/** @param {string} text */
export const bytes = (text) => new TextEncoder().encode(text);

/** @param {Uint8Array} a @param {Uint8Array} b */
export const same = (a, b) => a.length === b.length && a.every((v, i) => v === b[i]);

/** @param {...Uint8Array} parts */
export const joined = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

/** SHA-256: what names a plan, and a state. @param {Uint8Array} payload @returns {Promise<Uint8Array>} */
export async function hashOf(payload) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", /** @type {any} */ (payload)));
}

/** Bytes as hexadecimal digits. @param {Uint8Array} data */
export const hexOf = (data) => [...data].map((v) => v.toString(16).padStart(2, "0")).join("");

/** Name of a public key. @param {Uint8Array} key */
export const keyId = async (key) => base((await hashOf(key)).slice(0, 8));

// --- envelopes ----------------------------------------------------------------------------------------------

/** What a signature is over. @param {string} kind @param {Uint8Array} payload */
export const signedBytes = (kind, payload) => joined(bytes(`privreg/${kind}/v${VERSION}\0`), payload);

/**
 * Read an envelope of a kind; whoever reads its payload verifies a signature first.
 * @param {Uint8Array} data
 * @param {"plan" | "state" | "unsummed" | "lost"} kind
 * @returns {{payload: Uint8Array, signatures: {kid: string, sig: Uint8Array}[]}}
 */
export function openEnvelope(data, kind) {
  const what = `the envelope of a ${kind}`;
  const record = new Record(loads(data, what, 2 * LONGEST), what);
  record.fixed("v", VERSION);
  record.fixed("type", kind);
  const payload = unbase(record.take("payload"), `'payload' of ${what}`);
  const signatures = record.items("sigs", undefined, 8).map((one) => {
    const each = new Record(one, `a signature of ${what}`);
    const out = { kid: each.text("kid", 32), sig: each.binary("sig", 64) };
    each.done();
    return out;
  });
  record.done();
  need(signatures.length, `${what} must be signed.`);
  return { payload, signatures };
}
