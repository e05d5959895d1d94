/**
 * HTTP as a device speaks it: HTTPS or this machine, no redirects, no cookies, answers of limited size.
 * @module
 */

import { need } from "./wire.js";

const TIMEOUT = 30_000;
const LONGEST = 2 << 20;
const LAST_WAIT = 3600;
const HERE = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** What may pass: no connection (0), or a server that is busy or broken. */
export const RETRIED = new Set([0, 408, 425, 429, 500, 502, 503, 504]);

/** What a server means by a status; the same in Python, see `client.py`. @type {Record<number, string>} */
export const SAID = {
  0: "there is no connection",
  200: "the report had arrived before",
  201: "the report has arrived",
  400: "it can't read what was sent",
  401: "it wants its own analyst's token",
  404: "there is no such study at this address",
  408: "the message came too slowly",
  409: "the token has been used",
  410: "the study has closed, or the round that was answered",
  412: "it has no such round yet",
  413: "the message is too long",
  422: "it is no report of this study",
  425: "the study isn't open yet",
  429: "it was asked too often",
  500: "it has failed",
  502: "the server behind this address doesn't answer",
  503: "it is busy",
  504: "the server behind this address doesn't answer",
};

/** What a server's answer means, in words, with its status. @param {number} status */
export function meaning(status) {
  if (!(status in SAID)) return `it answers with status ${status}`;
  return status ? `${SAID[status]} (status ${status})` : SAID[status];
}

/** @typedef {{status: number, body: Uint8Array, wait: number}} Answer status 0: no connection; wait in seconds */
/** @typedef {(url: string, body: string | null) => Promise<Answer>} Transport gets an address, or posts a text to it */
/** @typedef {{base: string, slug: string, key: string, token: string}} Invitation */

/**
 * Take apart https://host/studies/{name}/#k={key}&t={token}; the interface's address, /v1/studies/{name}, does as well.
 * @param {string} link
 * @returns {Invitation}
 */
export function invitation(link) {
  const wrong = "a study's address is https://host/studies/ and its name (http:// only on this machine).";
  need(URL.canParse(link), wrong);
  const url = new URL(link), found = /^(.*?)(?:\/v1)?\/studies\/([^/]+)\/*$/.exec(url.pathname);
  const safe = url.protocol === "https:" || (url.protocol === "http:" && HERE.has(url.hostname));
  need(found && safe && !url.username && !url.password, wrong);
  const said = new URLSearchParams(url.hash.slice(1));
  need(["k", "t"].every((name) => said.getAll(name).length < 2), "a study's address has one key, and one token.");
  need(!/%(?![0-9a-f]{2})/i.test(found[2]), wrong);
  const slug = decodeURIComponent(found[2]);
  const base = `${url.origin}${found[1]}/v1/studies/${encodeURIComponent(slug)}`;
  return { base, slug, key: said.get("k") ?? "", token: said.get("t") ?? "" };
}

/** @type {Transport} */
export async function transport(url, body) {
  /** @type {RequestInit} */
  const options = {
    redirect: "error", credentials: "omit", referrerPolicy: "no-referrer", cache: "no-store",
    headers: body === null ? { Accept: "application/json" } : { "Content-Type": "application/json" },
    signal: AbortSignal.timeout(TIMEOUT),
  };
  const nothing = { status: 0, body: new Uint8Array(), wait: 0 };
  try {
    const answer = await fetch(url, body === null ? options : { ...options, method: "POST", body });
    const said = answer.headers.get("Retry-After") ?? "", wait = /^[0-9]{1,5}$/.test(said) ? Number(said) : 0;
    const data = await whole(answer);
    return data ? { status: answer.status, body: data, wait } : { ...nothing, status: 413, wait };
  } catch {
    return nothing;
  }
}

/** The body of an answer; null if it is too long. @param {Response} answer @returns {Promise<Uint8Array | null>} */
async function whole(answer) {
  const reader = answer.body?.getReader(), parts = [];
  for (let size = 0, part; reader && !(part = await reader.read()).done; parts.push(part.value)) {
    size += part.value.length;
    if (size > LONGEST) return reader.cancel().then(() => null);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** Seconds before the next attempt: doubled each time, with jitter, never less than the server asks. @param {number} attempt @param {number} asked */
export function waits(attempt, asked) {
  const most = Math.min(2 ** Math.min(attempt, 12), LAST_WAIT);
  const share = crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;
  return Math.max(most * (0.5 + 0.5 * share), Math.min(asked, LAST_WAIT));
}
