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

// --- JSON ---------------------------------------------------------------------------------------------------

const NUMBER = /-?(?:0|[1-9][0-9]*)/y;
const BLANK = /[ \t\n\r]*/y;
// eslint-disable-next-line no-control-regex
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const WORDS = new Map([["true", true], ["false", false], ["null", null]]);

/**
 * Read JSON: UTF-8, no name twice, integers within ± 2⁵³, no other numbers. Objects become Maps.
 * @param {Uint8Array} data
 * @param {string} what of what message, for the error
 * @param {number} [longest] bytes, at most
 * @returns {any}
 */
export function loads(data, what, longest = LONGEST) {
  if (data.length > longest) throw new MessageError(`${what} is longer than ${longest} bytes.`);
  const wrong = new MessageError(`${what} is no JSON of this protocol: UTF-8, integers and strings, no name twice.`);
  let text = "", at = 0;
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
    const whole = BigInt(digits);
    if (whole > 2n ** 53n || whole < -(2n ** 53n)) throw wrong;
    return Number(whole);
  }

  const out = value(1);
  match(BLANK);
  if (at !== text.length) throw wrong;
  return out;
}

/** A JSON object whose members are taken out one by one, so that none is left unread. */
export class Record {
  /** @param {any} value what was parsed @param {string} what its place, for errors */
  constructor(value, what) {
    if (!(value instanceof Map)) throw new MessageError(`${what} must be an object.`);
    this.what = what;
    /** @type {Map<string, any>} */
    this.left = new Map(value);
  }

  /** Take a member; all are required. @param {string} name @returns {any} */
  take(name) {
    if (!this.left.has(name)) throw new MessageError(`${this.what} has no '${name}'.`);
    const out = this.left.get(name);
    this.left.delete(name);
    return out;
  }

  /** @param {boolean} fine @param {string} name @param {string} wanted */
  must(fine, name, wanted) {
    if (!fine) throw new MessageError(`'${name}' of ${this.what} must be ${wanted}.`);
  }

  /** @param {string} name @param {number} [longest] @returns {string} */
  text(name, longest = 4096) {
    const value = this.take(name);
    const size = typeof value === "string" ? [...value].length : 0;
    this.must(size > 0 && size <= longest, name, `a string of 1 to ${longest} characters`);
    return value;
  }

  /** @param {string} name @param {number} low @param {number} high @returns {number} */
  integer(name, low, high) {
    const value = this.take(name);
    this.must(isInt(value, low, high), name, `an integer from ${low} to ${high}`);
    return value;
  }

  /** @param {string} name @returns {boolean} */
  flag(name) {
    const value = this.take(name);
    this.must(typeof value === "boolean", name, "true or false");
    return value;
  }

  /** @template {string} T @param {string} name @param {readonly T[]} allowed @returns {T} */
  choice(name, allowed) {
    const value = this.take(name);
    this.must(allowed.includes(value), name, `one of ${allowed.join(", ")}, the ones that this version knows`);
    return value;
  }

  /** Take a reserved member, which has one value in this version. @param {string} name @param {any} only */
  fixed(name, only) {
    this.must(this.take(name) === only, name, `${JSON.stringify(only)} in this version`);
  }

  /** @param {string} name @param {boolean} [infinite] @returns {number} */
  real(name, infinite = false) {
    return numberOf(this.take(name), `'${name}' of ${this.what}`, infinite);
  }

  /** @param {string} name @param {number} [count] @returns {number[]} */
  reals(name, count) {
    return this.items(name, count).map((v) => numberOf(v, `'${name}' of ${this.what}`));
  }

  /** @param {string} name @param {number} [count] @param {number} [most] @returns {any[]} */
  items(name, count, most = 1 << 16) {
    const value = this.take(name);
    const fine = Array.isArray(value) && value.length <= most && (count === undefined || value.length === count);
    this.must(fine, name, `a list of ${count ?? `at most ${most}`}`);
    return value;
  }

  /** @param {string} name @param {number} low @param {number} high @param {number} [count] @returns {number[]} */
  integers(name, low, high, count) {
    const value = this.items(name, count);
    this.must(value.every((v) => isInt(v, low, high)), name, `a list of integers from ${low} to ${high}`);
    return value;
  }

  /** @param {string} name @param {number} length @returns {Uint8Array} */
  binary(name, length) {
    const value = unbase(this.take(name), `'${name}' of ${this.what}`);
    this.must(value.length === length, name, `base64url of ${length} bytes`);
    return value;
  }

  /** Take an object, or null. @param {string} name */
  optional(name) {
    const value = this.take(name);
    return value === null ? null : new Record(value, `'${name}' of ${this.what}`);
  }

  /** Take an object. @param {string} name */
  object(name) {
    return new Record(this.take(name), `'${name}' of ${this.what}`);
  }

  /** Refuse members that nobody took; those that begin with x_ say nothing that a device acts on. */
  done() {
    for (const name of this.left.keys()) {
      if (!name.startsWith("x_")) throw new MessageError(`${this.what} has a member that this version doesn't know.`);
    }
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
  if (!(Math.abs(out) <= LARGEST || (infinite && Number.isFinite(out)))) {
    throw new MessageError(`${what} must be a hex float such as "0x1.8p+1", at most 2^60 in absolute value.`);
  }
  return out;
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const PLACES = new Map([...DIGITS].map((c, i) => [c, i]));

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
  const wrong = new MessageError(`${what} must be base64url without padding.`);
  if (typeof value !== "string" || value.length % 4 === 1) throw wrong;
  const out = new Uint8Array((value.length * 3) >> 2);
  let bits = 0, held = 0, at = 0;
  for (const c of value) {
    const place = PLACES.get(c);
    if (place === undefined) throw wrong;
    held = ((held << 6) | place) & 0xffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out[at] = held >> bits;
      at += 1;
    }
  }
  if (held & ((1 << bits) - 1)) throw wrong;
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
  if (data.length % 4) throw new MessageError(`${what} must be base64url of int32 numbers.`);
  const from = new DataView(data.buffer);
  return Array.from({ length: data.length / 4 }, (_, i) => from.getInt32(4 * i, true));
}

/** @param {string} text */
export const bytes = (text) => new TextEncoder().encode(text);

/** @param {Uint8Array} a @param {Uint8Array} b */
export const same = (a, b) => a.length === b.length && a.every((v, i) => v === b[i]);

/** @param {...Uint8Array} parts */
export function joined(...parts) {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** SHA-256: what names a plan, and a state. @param {Uint8Array} payload @returns {Promise<Uint8Array>} */
export async function hashOf(payload) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", /** @type {any} */ (payload)));
}

/** Name of a public key. @param {Uint8Array} key */
export const keyId = async (key) => base((await hashOf(key)).slice(0, 8));

// --- envelopes ----------------------------------------------------------------------------------------------

/** What a signature is over. @param {string} kind @param {Uint8Array} payload */
export const signedBytes = (kind, payload) => joined(bytes(`privreg/${kind}/v${VERSION}\0`), payload);

/**
 * Read an envelope of a kind; whoever reads its payload verifies a signature first.
 * @param {Uint8Array} data
 * @param {"plan" | "state"} kind
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
  if (!signatures.length) throw new MessageError(`${what} must be signed.`);
  return { payload, signatures };
}
