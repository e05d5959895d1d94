// The analyst's page: its token, the stream of events, and the view of them.
import uPlot from "./uPlot.esm.js";
import { Unauthorised, follow } from "./stream.js";
import { View } from "./view.js";

const slug = new URL(import.meta.url).pathname.split("/").at(-3);
const base = new URL(`../../../v1/studies/${slug}`, import.meta.url).href;
const KEPT = `privreg-analyst:${slug}`;

const at = (id) => document.getElementById(id);
let view = new View(uPlot, at("view"));
let address = `${base}/events`;
let going = null;

function said(words) {
  if (at("link").textContent !== words) at("link").textContent = words;
}

function ask(wrong) {
  sessionStorage.removeItem(KEPT);
  at("view").hidden = at("forget").hidden = true;
  at("login").hidden = false;
  at("login-wrong").textContent = wrong;
  said("Not connected");
  at("token").value = "";
  at("token").focus();
}

function heard(kind, data) {
  if (!at("login").hidden) {
    at("login").hidden = true;
    at("title").focus(); // what had it is gone
  }
  at("view").hidden = false;
  at("forget").hidden = !sessionStorage.getItem(KEPT);
  if (kind === "progress") {
    at("title").textContent = data.title;
    document.title = `${data.people.toLocaleString("en")} reports – ${data.title}`;
    view.progress(data);
  } else if (kind === "results") view.results(data);
  const closed = view.last.progress?.status === "closed";
  said(`Connected; ${closed ? "the study has closed" : "numbers change as reports come"}`);
}

async function start() {
  going?.abort();
  going = new AbortController();
  const token = sessionStorage.getItem(KEPT);
  try {
    await follow(address, token, heard, () => said("Connection lost; trying again …"), going.signal);
  } catch (e) {
    if (!(e instanceof Unauthorised)) throw e;
    ask(token ? "This is not the study’s token." : "");
  }
}

/** Names of the study's analyses, of its public plan; none if there is one alone. */
async function analyses() {
  const { payload } = await (await fetch(`${base}/plan`)).json();
  const bytes = Uint8Array.from(atob(payload.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return (JSON.parse(new TextDecoder().decode(bytes)).analyses ?? []).map((one) => one.name);
}

/** Show an analysis. */
function choose(name) {
  address = `${base}/analyses/${encodeURIComponent(name)}/events`;
  view.destroy();
  at("view").replaceChildren();
  view = new View(uPlot, at("view"));
  start();
}

async function begin() {
  const names = await analyses().catch(() => null);
  if (names === null) {
    said("Connection lost; trying again …");
    return setTimeout(begin, 2000);
  }
  if (!names.length) return start();
  at("analysis").append(...names.map((name) => new Option(name, name)));
  at("analysis").addEventListener("change", () => choose(at("analysis").value));
  at("which").hidden = false;
  return choose(names[0]);
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEPT, at("token").value.trim());
  start();
});
at("forget").addEventListener("click", () => {
  going?.abort();
  ask("");
});
begin();
