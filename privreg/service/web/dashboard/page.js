// The analyst's page: its token, the stream of events, and the view of them.
import uPlot from "./uPlot.esm.js";
import { Unauthorised, follow } from "./stream.js";
import { View } from "./view.js";

const slug = new URL(import.meta.url).pathname.split("/").at(-3);
const address = new URL(`../../../v1/studies/${slug}/events`, import.meta.url).href;
const KEPT = `privreg-analyst:${slug}`;

const at = (id) => document.getElementById(id);
const view = new View(uPlot, at("view"));
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
  said("Connected; numbers change as reports come");
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

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEPT, at("token").value.trim());
  start();
});
at("forget").addEventListener("click", () => {
  going?.abort();
  ask("");
});
start();
