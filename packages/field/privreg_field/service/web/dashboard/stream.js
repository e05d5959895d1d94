// Server-sent events by fetch: an EventSource could send no header, and a token has no place in an address.

const SILENT = 45_000; // Milliseconds without a byte after which the connection is taken for lost
const LONGEST = 30_000; // Milliseconds between two tries, at most

/** The server wants a token, or another one. */
export class Unauthorised extends Error {}

/**
 * Split what came into events.
 * @param {string} text what came and was not yet read
 * @returns {{events: {kind: string, data: string}[], rest: string}}
 */
export function parsed(text) {
  const parts = text.split("\n\n");
  const rest = parts.pop() ?? "";
  const events = [];
  for (const part of parts) {
    let kind = "message";
    const data = [];
    for (const line of part.split("\n")) {
      if (line.startsWith("event: ")) kind = line.slice(7);
      else if (line.startsWith("data: ")) data.push(line.slice(6));
    }
    if (data.length) events.push({ kind, data: data.join("\n") });
  }
  return { events, rest };
}

/** What hears events has failed: no reason to connect again. */
class Untold extends Error {}

function told(tell, kind, data) {
  try {
    tell(kind, JSON.parse(data));
  } catch (e) {
    throw new Untold(`an event ${kind} could not be shown`, { cause: e });
  }
}

async function once(url, token, tell, signal) {
  const headers = { Accept: "text/event-stream" };
  if (token) headers.Authorization = `Bearer ${token}`;
  const silent = new AbortController();
  const stop = () => silent.abort();
  signal.addEventListener("abort", stop);
  let timer = setTimeout(stop, SILENT);
  try {
    const answer = await fetch(url, { headers, signal: silent.signal, cache: "no-store", credentials: "omit" });
    if (answer.status === 401) throw new Unauthorised("the server wants the analyst's token");
    if (!answer.ok || !answer.body) throw new Error(`status ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let held = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, SILENT);
      const { events, rest } = parsed(held + value);
      held = rest;
      for (const { kind, data } of events) told(tell, kind, data);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
  }
}

/**
 * Follow events, again and again, until told to stop.
 * @param {string} url
 * @param {string | null} token
 * @param {(kind: string, data: any) => void} tell hears every event
 * @param {() => void} lost hears that the connection was lost
 * @param {AbortSignal} signal
 * @throws {Unauthorised}
 */
export async function follow(url, token, tell, lost, signal) {
  for (let wait = 1000; !signal.aborted;) {
    let heard = false;
    try {
      await once(
        url,
        token,
        (kind, data) => {
          heard = true;
          tell(kind, data);
        },
        signal,
      );
    } catch (e) {
      if (e instanceof Unauthorised || e instanceof Untold) throw e;
    }
    if (signal.aborted) return;
    lost();
    wait = heard ? 1000 : Math.min(wait * 2, LONGEST);
    await new Promise((go) => setTimeout(go, wait * (0.75 + Math.random() / 2)));
  }
}
