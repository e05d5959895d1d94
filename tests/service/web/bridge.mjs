// The JavaScript device at the end of a pipe, for tests: a JSON request a line, a JSON answer a line.

import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { performance } from "node:perf_hooks";

const at = (name) => new URL(`../../../packages/field/privreg_field/service/web/device/${name}.js`, import.meta.url).href;
const [analyses, answer, client, lattice, memory, messages, noise, plans, seal, session, shares, trees, verify, wire] = await Promise.all(
  ["analyses", "answer", "client", "lattice", "memory", "messages", "noise", "plan", "seal", "session", "shares", "trees", "verify", "wire"]
    .map((name) => import(at(name))),
);

/** A memory in a JSON file, for tests: IndexedDB is the browser's. */
export class FileStore {
  constructor(path) {
    this.path = path;
  }

  async change(work) {
    let all = new Map();
    try {
      all = new Map(JSON.parse(readFileSync(this.path, "utf-8")));
    } catch {}
    const { result, put } = work(all);
    if (put) {
      for (const one of [put].flat()) all.set(one.id, one);
      writeFileSync(`${this.path}.new`, JSON.stringify([...all]));
      renameSync(`${this.path}.new`, this.path);
    }
    return result;
  }
}

/** Words of a vector, then no more. */
function given(text) {
  let left = wire.unbase(text, "words"), used = 0;
  const words = new noise.Words((count) => {
    if (!left.length) return new Uint8Array();
    const some = new Uint8Array(count);
    some.set(left.slice(0, count));
    left = left.slice(count);
    return some;
  });
  const word = words.word.bind(words);
  words.word = () => { used += 1; return word(); };
  return { words, used: () => used };
}

const view = new DataView(new ArrayBuffer(8));
function bits(value) {
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}
const real = (text) => wire.numberOf(text, "a number", true);
const utf8 = (text) => new TextEncoder().encode(text);

function fails(work) {
  try {
    work();
    return false;
  } catch (e) {
    if (!(e instanceof wire.MessageError)) throw e;
    return true;
  }
}

const sessions = new Map();

const DO = {
  noise({ bits: m, words, count }) {
    const from = given(words);
    const drawn = Array.from({ length: count }, () => noise.roundedNormal(m, from.words));
    return { noise: drawn, used: from.used() };
  },
  draw({ bits: m, count }) {
    const words = new noise.Words(), began = performance.now();
    const drawn = Array.from({ length: count }, () => noise.roundedNormal(m, words));
    return { noise: drawn, seconds: (performance.now() - began) / 1000 };
  },
  async check() {
    await verify.check();
    await noise.check();
    return true;
  },
  async shares({ plan, state, row, words, token }) {
    const payload = wire.unbase(plan, "plan"), read = await plans.readPlan(payload), hash = await wire.hashOf(payload);
    const [ask] = messages.readState(wire.unbase(state, "state"), read, hash).asks, role = { ...read.roles.get(ask.role), radius: ask.radius };
    const whole = shares.whole(role, shares.beforeShares(read, ask, answer.rowOf(read, row)));
    const bound = await wire.hashOf(wire.unbase(state, "state")), mine = messages.readToken(token);
    const infos = ["a", "b"].map((letter) => wire.base(shares.shareInfo(letter, bound, mine)));
    return { whole, infos, shares: shares.shares(whole, () => wire.unbase(words, "words")).map(wire.base) };
  },
  async apart({ plan, asks }) {
    const read = await plans.readPlan(wire.unbase(plan, "plan"));
    return asks.map(([role, theta, reach]) => read.summing.distance2(read, role, theta && { theta, reach }).map(String));
  },
  wholes: ({ cases }) => cases.map(([role, report]) => shares.whole(role, report.map(real))),
  bits: ({ mus }) => mus.map(lattice.bitsOfSums),
  async seal({ own, public: x, key, info, plain }) {
    const jwk = { kty: "OKP", crv: "X25519", ext: true }, how = { name: "X25519" };
    const privateKey = own && await crypto.subtle.importKey("jwk", { ...jwk, d: own, x }, how, false, ["deriveBits"]);
    const publicKey = own && await crypto.subtle.importKey("jwk", { ...jwk, x }, how, true, []);
    const given = [plain, key, info].map((v) => wire.unbase(v, "bytes"));
    try {
      return wire.base(await seal.seal(...given, own ? async () => ({ privateKey, publicKey }) : undefined));
    } catch (e) {
      if (e instanceof wire.MessageError) return null;
      throw e;
    }
  },
  async seals({ key, count, times }) {
    const plain = new Uint8Array(count), to = wire.unbase(key, "key"), began = performance.now();
    for (let i = 0; i < times; i += 1) await seal.seal(plain, to, plain.slice(0, 60));
    return (performance.now() - began) / 1000 / times;
  },
  async report({ plan, state, token, row, words }) {
    const payload = wire.unbase(plan, "plan"), read = await plans.readPlan(payload), hash = await wire.hashOf(payload);
    const said = messages.readState(wire.unbase(state, "state"), read, hash), mine = messages.readToken(token);
    const place = await messages.placeOf(hash, mine), ask = messages.askOf(said, place);
    const group = messages.groupOf(read, ask.role, place), role = read.roles.get(ask.role);
    const inside = answer.rowOf(read, row);
    const before = answer.values(role, answer.beforeNoise(read, ask, group, inside));
    const made = answer.reported(read, said, place, row, given(words).words);
    const body = messages.reportBody(hash, said.number, made.role, mine, made.values);
    return {
      place: [place.role, place.group, place.slot], group, before, body,
      row: [...inside.x, inside.y, inside.offset].map(bits),
    };
  },
  async envelope({ envelope, type, key, plan }) {
    try {
      const pinned = wire.unbase(key, "key"), { payload, signatures } = wire.openEnvelope(utf8(envelope), type);
      const kid = await wire.keyId(pinned), message = wire.signedBytes(type, payload);
      const good = await Promise.all(signatures.map(async (s) => s.kid === kid && verify.verify(pinned, message, s.sig)));
      if (!good.includes(true)) return false;
      if (type === "plan") await plans.readPlan(payload);
      else {
        const known = wire.unbase(plan, "plan");
        messages.readState(payload, await plans.readPlan(known), await wire.hashOf(known));
      }
      return true;
    } catch (e) {
      if (e instanceof wire.MessageError) return false;
      throw e;
    }
  },
  async signed({ key, message, signature }) {
    const [k, m, s] = [key, message, signature].map((v) => wire.unbase(v, "bytes"));
    return verify.verify(k, m, s);
  },
  async plan({ payload }) {
    try {
      await plans.readPlan(wire.unbase(payload, "plan"));
      return true;
    } catch (e) {
      if (e instanceof wire.MessageError) return false;
      throw e;
    }
  },
  hexes: ({ texts }) => texts.map((t) => { try { return bits(real(t)); } catch { return null; } }),
  json: ({ texts }) => texts.map((t) => !fails(() => wire.loads(wire.unbase(t, "text"), "a text"))),
  bases: ({ texts }) => texts.map((t) => { try { return [...wire.unbase(t, "text")]; } catch { return null; } }),
  packs: ({ lists }) => lists.map((v) => [wire.pack(v), wire.unpack(wire.pack(v), "values")]),
  private: ({ cases }) => cases.map(([form, n, r, mu, m]) => lattice.isPrivate(form, n, r, mu, m)),
  values: ({ cases }) => cases.map(([role, report]) => answer.values(role, report.map(real))),
  trees: ({ cases }) => cases.map(([tree, values]) => {
    const read = Object.entries(values).map(([name, v]) => [name, real(v)]);
    return bits(trees.valueOf(tree, new Map(), new Map(read)));
  }),
  reads: ({ column, answers }) => {
    const one = { ...column, low: real(column.low), high: real(column.high) };
    return answers.map((v) => answer.read(one, v));
  },
  invitations: ({ links }) => links.map((link) => {
    try {
      return client.invitation(link);
    } catch (e) {
      return e instanceof wire.MessageError ? null : String(e);
    }
  }),
  waits: ({ attempts }) => attempts.map(([attempt, asked]) => client.waits(attempt, asked)),

  /** A plan's analyses, and what a table is told of rows. */
  async plans({ payload, ids, rows }) {
    const data = wire.unbase(payload, "plan"), read = await plans.readPlans(data), hash = await wire.hashOf(data);
    return {
      plans: read.map((p) => ({
        hash: wire.base(p.hash), form: p.form.map((c) => c.name), people: p.part.people, slug: p.slug, together: p.together,
        wholes: p.table.length ? rows.map((row) => answer.tableOf(p, row)) : [],
      })),
      words: await Promise.all(ids.map((id) => analyses.wordOf(hash, wire.unbase(id, "id")))),
    };
  },
  refusals: ({ payloads }) => Promise.all(payloads.map(async (payload) => {
    try {
      await plans.readPlans(wire.unbase(payload, "plan"));
      return false;
    } catch (e) {
      return e instanceof wire.MessageError;
    }
  })),

  /** A session; `steps` of begin, prepare and send. What it refuses comes as text. */
  async session({ id, link, steps, answers, memory: file, now, patience, limits, broken, faults }) {
    const log = [];
    let time = now;
    const store = new FileStore(file), change = store.change.bind(store);
    store.change = async (work) => {
      if (broken?.includes("memory")) throw new memory.StoreError("the memory can't be used.");
      return change(work);
    };
    const failing = [...(faults ?? [])];
    const options = {
      memory: new memory.Memory(store), clock: () => time, ...(limits ? { limits } : {}),
      ...(patience === undefined || patience === null ? {} : { patience }),
      sleep: async (s) => { log.push(`sleep ${s > 0}`); time += s; },
      transport: async (url, body) => {
        log.push(body === null ? `get ${url.split("/").pop()}` : "post");
        if (body !== null) log.push(`kept ${JSON.parse(readFileSync(file, "utf-8")).some(([, e]) => e.report?.body?.split("\n").includes(body))}`);
        const fault = failing.shift();
        if (fault === "lost") await client.transport(url, body); // stored there, and the answer lost
        if (fault === "lost" || fault === "off") return { status: 0, body: new Uint8Array(), wait: 0 };
        return fault ? { status: fault, body: new Uint8Array(), wait: 7 } : client.transport(url, body);
      },
    };
    const before = { random: crypto.getRandomValues, subtle: crypto.subtle.importKey, generate: crypto.subtle.generateKey };
    if (broken?.includes("x25519")) crypto.subtle.generateKey = async () => { throw new Error("NotSupportedError"); };
    if (broken?.includes("random")) crypto.getRandomValues = () => { throw new Error("none"); };
    if (broken?.includes("ed25519")) crypto.subtle.importKey = async () => { throw new Error("NotSupportedError"); };
    if (broken?.includes("sampler")) {
      const digest = crypto.subtle.digest.bind(crypto.subtle);
      before.digest = crypto.subtle.digest;
      crypto.subtle.digest = (how, data) => digest(how, data.length < 30 ? new Uint8Array([...data, 0]) : data);
    }
    if (broken?.includes("sealer")) {
      before.encrypt = crypto.subtle.encrypt;
      crypto.subtle.encrypt = async (...given) => new Uint8Array(await before.encrypt.apply(crypto.subtle, given)).map((v, i) => v ^ Number(i === 50)).buffer;
    }
    try {
      let one = sessions.get(id), out = null;
      for (const step of steps) {
        if (step === "begin") {
          one = await session.Session.begin(link, options);
          sessions.set(id, one);
        } else out = step === "prepare" ? await one.prepare(answers ?? {}) : await one[step]();
      }
      const waiting = one.waiting;
      const year = [one.year?.length, one.together];
      return { out, waiting, receipt: one.receipt, year, log, again: one.again };
    } catch (e) {
      if (!(e instanceof session.RefusedError)) throw e;
      return { refused: e.message, missing: e.missing, log };
    } finally {
      crypto.getRandomValues = before.random;
      crypto.subtle.importKey = before.subtle;
      crypto.subtle.generateKey = before.generate;
      if (before.encrypt) crypto.subtle.encrypt = before.encrypt;
      if (before.digest) crypto.subtle.digest = before.digest;
    }
  },

  /** Many devices, each with its own memory, one after the other. */
  async crowd({ links, rows, folder, first }) {
    const statuses = [];
    for (const [i, link] of links.entries()) {
      const store = new memory.Memory(new FileStore(`${folder}/${first + i}.json`));
      const one = await session.Session.begin(link, { memory: store });
      await one.prepare(rows[i]);
      statuses.push(await one.send());
    }
    return statuses;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  let said;
  try {
    const { do: name, ...more } = JSON.parse(line);
    said = { ok: (await DO[name](more)) ?? null };
  } catch (e) {
    said = { error: String(e.stack) };
  }
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
