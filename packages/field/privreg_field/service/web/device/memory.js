/**
 * What a device remembers: plans it has seen, budgets spent, and reports until they have arrived. Nothing of the answers.
 *
 * A report is stored durably *before* it is sent, and sent again as these very bytes: noise is never drawn twice for one
 * state of affairs. A study and a token are answered once.
 * @module
 */

/** The memory can't be used; nothing was sent. */
export class StoreError extends Error {}

/** @typedef {{plan: string, number: number, state: string, time: number}} Seen hashes are base64url */
/**
 * @typedef {object} Stored
 * @property {string} plan
 * @property {string} token id; of the further analyses of a study with a point and their number behind it
 * @property {number} state
 * @property {string | null} body the text that is posted, a line for each of two collectors; null once it has arrived, empty
 *   if two collectors deleted it, and it is made anew
 * @property {string | null} receipt
 */
/** @typedef {{release: string, mu: number[], time: number, clock: number}} Spent */
/** @typedef {{id: string, root: string, slug: string, seen: Seen | null, report: (Stored & Spent) | null}} Entry */
/**
 * Where entries are kept. `change` hands all of them to `work`, by id, and keeps what it returns as `put`, in one durable
 * transaction; then it resolves to `result`.
 * @typedef {{change: <T>(work: (all: Map<string, Entry>) => {result: T, put?: Entry | Entry[]}) => Promise<T>}} Store
 */

const YEAR = 366 * 86_400;

/** @param {Map<string, Entry>} all @param {string} root @param {string} slug @returns {Entry} */
function entryOf(all, root, slug) {
  const id = `${root}/${slug}`;
  return all.get(id) ?? { id, root, slug, seen: null, report: null };
}

/** Entries of a study's analyses. @param {Map<string, Entry>} all @param {string} root @param {string} study */
const ofStudy = (all, root, study) => [...all.values()].filter((e) => e.root === root && (e.slug === study || e.slug.startsWith(`${study}/`)));

/** Σ (p/q)² as a fraction. @param {number[][]} budgets */
function squares(budgets) {
  let n = 0n, d = 1n;
  for (const [p, q] of budgets.map((mu) => mu.map(BigInt))) {
    n = n * q * q + p * p * d;
    d *= q * q;
  }
  return [n, d];
}

/** Whether Σ μ² of budgets is no more than that of others. @param {number[][]} budgets @param {number[][]} caps */
export function within(budgets, caps) {
  const [n, d] = squares(budgets), [most, of] = squares(caps);
  return n * of <= most * d;
}

/** Budgets of a year's reports, by this device's clock alone. @param {Iterable<Entry>} all @param {number} clock */
const yearOf = (all, clock) => [...all].flatMap((e) => (e.report && e.report.mu[0] > 0 && e.report.clock > clock - YEAR ? [e.report.mu] : []));

/** The memory of a device. */
export class Memory {
  /** @param {Store} [store] this browser's database by default */
  constructor(store = new IndexedStore()) {
    this.store = store;
  }

  /** What was seen of a study. @param {string} root @param {string} slug @returns {Promise<Seen | null>} */
  async seen(root, slug) {
    return this.store.change((all) => ({ result: entryOf(all, root, slug).seen }));
  }

  /** Hashes of plans that were seen of a study: one for each analysis. @param {string} root @param {string} study @returns {Promise<string[]>} */
  async plans(root, study) {
    return this.store.change((all) => ({ result: ofStudy(all, root, study).flatMap((e) => (e.seen ? [e.seen.plan] : [])) }));
  }

  /** The reports to a study, by the analysis's name among all. @param {string} root @param {string} study @returns {Promise<Map<string, Stored>>} */
  async reports(root, study) {
    return this.store.change((all) => ({
      result: new Map(ofStudy(all, root, study).flatMap((e) => (e.report ? [[e.slug, /** @type {Stored} */ (e.report)]] : []))),
    }));
  }

  /** Whether a token has been used, for whatever study. @param {string} token */
  async used(token) {
    return this.store.change((all) => ({ result: [...all.values()].some((e) => e.report?.token.split(".")[0] === token) }));
  }

  /**
   * Budgets μ of a year's reports to whatever studies. The year is of this device's clock alone: studies choose the times in
   * their states, and one far ahead would let budgets be forgotten, or never be.
   * @param {number} clock @returns {Promise<number[][]>}
   */
  async year(clock) {
    return this.store.change((all) => ({ result: yearOf(all.values(), clock) }));
  }

  /**
   * Remember the latest state of a study; what is remembered never goes back. Resolves to what is known now.
   * @param {string} root @param {string} slug @param {Seen} seen
   * @returns {Promise<Seen>}
   */
  async note(root, slug, seen) {
    return this.store.change((all) => {
      const entry = entryOf(all, root, slug);
      const known = entry.seen;
      if (known && (known.plan !== seen.plan || known.number >= seen.number)) return { result: known };
      const next = { ...seen, time: Math.max(seen.time, known?.time ?? 0) };
      return { result: next, put: { ...entry, seen: next } };
    });
  }

  /**
   * Write the reports to all of a study's analyses ahead of sending them, with what they spend: all, or none.
   * @param {string} root @param {Map<string, Stored & Spent>} reports by slug; the first bears what they cost together
   * @param {number[]} cap p and q of what √Σ μ² of a year's reports may be, to studies of one release group or key
   * @param {number[][]} agreed budgets that a year's reports to whatever studies may cost together
   * @returns {Promise<boolean>} whether reports to this study are stored: another page may have been faster; false if they
   *   would spend too much, or a plan or token was used
   */
  async keep(root, reports, cap, agreed) {
    return this.store.change((all) => {
      const entries = [...reports.keys()].map((slug) => entryOf(all, root, slug)), [report] = reports.values();
      if (entries.some((e) => e.report)) return { result: true };
      const others = [...all.values()].flatMap((e) => (e.report ? [{ root: e.root, ...e.report }] : []));
      if (others.some((r) => [...reports.values()].some((one) => r.plan === one.plan || r.token === one.token))) return { result: false };
      const year = others.filter((r) => (r.release === report.release || r.root === root)
        && (r.time > report.time - YEAR || r.clock > report.clock - YEAR));
      if (!within([report.mu, ...year.map((r) => r.mu)], [cap])) return { result: false };
      if (!within([report.mu, ...yearOf(all.values(), report.clock)], agreed)) return { result: false };
      return { result: true, put: entries.map((e) => ({ ...e, report: /** @type {Stored & Spent} */ (reports.get(e.slug)) })) };
    });
  }

  /** Forget a text that two collectors deleted, so that a report to a later state may take its place. @param {string} root @param {string} slug @param {string} body */
  async unsummed(root, slug, body) {
    await this.store.change((all) => {
      const entry = entryOf(all, root, slug), { report } = entry;
      return report?.body === body ? { result: null, put: { ...entry, report: { ...report, body: "" } } } : { result: null };
    });
  }

  /**
   * Write a report ahead in the place of one that was forgotten; if another page was faster, its report stays.
   * @param {string} root @param {string} slug @param {number} state @param {string} body @returns {Promise<Stored | null>}
   */
  async again(root, slug, state, body) {
    return this.store.change((all) => {
      const entry = entryOf(all, root, slug), { report } = entry;
      if (report?.body !== "" || report.state >= state) return { result: report };
      return { result: { ...report, state, body }, put: { ...entry, report: { ...report, state, body } } };
    });
  }

  /** Keep the receipt, if there is one, and forget the bytes; what was spent stays. @param {string} root @param {string} slug @param {string | null} receipt */
  async arrived(root, slug, receipt) {
    await this.store.change((all) => {
      const entry = entryOf(all, root, slug);
      if (!entry.report) return { result: null };
      return { result: null, put: { ...entry, report: { ...entry.report, body: null, receipt } } };
    });
  }
}

const KEPT = "studies", BROKEN = "this browser's memory (IndexedDB) can't be used.";

/** A browser's IndexedDB: one strictly durable transaction for each change. @implements {Store} */
export class IndexedStore {
  /** @param {string} [name] */
  constructor(name = "privreg") {
    this.name = name;
  }

  /** @returns {Promise<IDBDatabase>} */
  open() {
    return new Promise((resolve, reject) => {
      const failed = () => reject(new StoreError(BROKEN));
      try {
        const asked = indexedDB.open(this.name, 1);
        asked.onupgradeneeded = () => asked.result.createObjectStore(KEPT, { keyPath: "id" });
        asked.onsuccess = () => resolve(asked.result);
        asked.onerror = asked.onblocked = failed;
      } catch {
        failed();
      }
    });
  }

  /** @template T @param {(all: Map<string, Entry>) => {result: T, put?: Entry | Entry[]}} work @returns {Promise<T>} */
  async change(work) {
    const db = await this.open();
    try {
      return await new Promise((resolve, reject) => {
        const failed = () => reject(new StoreError(BROKEN));
        /** @type {T} */
        let result;
        const transaction = db.transaction(KEPT, "readwrite", { durability: "strict" });
        transaction.oncomplete = () => resolve(result);
        transaction.onerror = transaction.onabort = failed;
        const kept = transaction.objectStore(KEPT), asked = kept.getAll();
        asked.onsuccess = () => {
          const done = work(new Map(asked.result.map((entry) => [entry.id, entry])));
          result = done.result;
          for (const one of [done.put ?? []].flat()) kept.put(one);
        };
      });
    } finally {
      db.close();
    }
  }
}
