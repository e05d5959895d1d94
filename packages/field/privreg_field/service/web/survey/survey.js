/**
 * The page of a survey, made from the signed plan alone: purpose, questions, consent, answers once more, what is sent, receipt.
 *
 * Answers live in the form, in this page's memory, and until a report was made in this browser's local storage, which the page
 * says. From then on only the numbers with noise are stored.
 * @module
 */

import { RefusedError, Session, read } from "../device/index.js";
import { valueOf } from "../device/trees.js";
import { guesses, picture } from "./picture.js";
import { GERMAN } from "./german.js";
import { ENGLISH } from "./texts.js";

/** @typedef {import("../device/trees.js").Column} Column */
/** @typedef {{column: Column, input: HTMLElement, flaw: HTMLElement, text: () => string, value: () => any, raw: () => string, put: (raw: string) => void}} Field
 * `raw` is what is kept of a form, which `put` enters again */

const MOST_CHOICES = 7;
/** What is said in these very words too, if a plan has others: they are the study's. */
const UNCHANGED = ["translated", "limits", "stays", "guess", "year"];
const page = /** @type {HTMLElement} */ (document.getElementById("page"));
/** @type {Map<string, string>} */
let given = new Map();

/** With two collectors, who they are, by the names of places in texts. @type {Record<string, string> | null} */
let pair = null;

/** Texts of the study in the language that is shown. @type {Map<string, any>} */
let local = new Map();

/** The page's words in that language, as they are shipped. */
let shipped = ENGLISH;

/** A study's text, as the language has it. @param {string} name @param {string} plain @returns {string} */
const own = (name, plain) => (typeof local.get(name) === "string" ? local.get(name) : plain);

/** What is asked for a column, and what is read for its levels. @param {Column} column @returns {Column} */
function translated(column) {
  const ask = local.get("questions")?.get(column.name), labels = local.get("choices")?.get(column.name);
  return { ...column, ask: ask ?? column.ask, labels: labels ? column.levels.map((l) => labels.get(String(l)) ?? String(l)) : column.labels };
}

/** Show the page in a language of the plan, its first one by default. @param {Session["plan"]} plan @param {string} [code] */
function speak(plan, code) {
  local = (code && plan.languages.get(code)) || new Map();
  const words = local.get("texts") ?? (code && local.size ? new Map() : plan.texts);
  given = new Map([...words].filter(([name]) => name !== "translated"));
  given.set("language", known(code ?? given.get("language") ?? ENGLISH.language));
  shipped = /^de\b/.test(given.get("language") ?? "") ? GERMAN : ENGLISH;
  document.documentElement.lang = say("language");
  document.documentElement.dir = say("direction");
}

/** A switch of languages, if the study has several. @param {Session["plan"]} plan @param {() => void} again shows the view anew */
function languages(plan, again) {
  const first = known(plan.texts.get("language") ?? ENGLISH.language), codes = [first, ...plan.languages.keys()];
  if (codes.length < 2) return [];
  const named = (/** @type {string} */ code) => new Intl.DisplayNames([code], { type: "language" }).of(code) ?? code;
  const options = codes.map((code) => h("option", { value: code, lang: code, selected: known(code) === say("language") }, named(code)));
  const input = /** @type {HTMLSelectElement} */ (h("select", { id: "language", onchange: () => {
    speak(plan, input.value === first ? undefined : input.value);
    again();
    document.getElementById("language")?.focus();
  } }, ...options));
  return [h("p", { class: "language" }, h("label", { for: "language" }, say("switch"), " ", input))];
}

// --- a half-filled form, kept in this browser until a report is made ------------------------------------------

/** @param {Session} session */
const place = (session) => `privreg-form:${session.invited.key}:${session.plan.study}`;

/** @param {Session} session @returns {Record<string, string>} */
function draft(session) {
  try {
    return JSON.parse(localStorage.getItem(place(session)) ?? "{}");
  } catch {
    return {};
  }
}

/** Keep what was entered, or forget it. @param {Session} session @param {Record<string, string>} [entered] */
function keep(session, entered) {
  try {
    if (entered) localStorage.setItem(place(session), JSON.stringify(entered));
    else localStorage.removeItem(place(session));
  } catch {
    // a browser that keeps nothing: the form works without
  }
}

/** A text's name in this study: where it has two collectors some texts are others. @param {string} name */
const named = (name) => (pair && Object.hasOwn(ENGLISH, `${name}Sums`) ? `${name}Sums` : name);

/** Words of the plan, or English ones, with values in their places. @param {string} name @param {Record<string, any>} [values] */
const say = (name, values) => filled(given.get(named(name)) ?? shipped[named(name)], { ...pair, ...values });

/** @param {string} text @param {Record<string, any>} values */
const filled = (text, values) => text.replace(/\{(\w+)\}/g, (whole, key) => (Object.hasOwn(values, key) ? String(values[key]) : whole));

/** @param {string} tag @param {Record<string, any>} [attributes] @param {...(Node | string)} children */
function h(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else if (value !== false) out.setAttribute(name, value === true ? "" : String(value));
  }
  out.append(...children);
  return out;
}

/** The study's own text, in a box that says so. @param {...Node} parts */
const said = (...parts) => h("blockquote", { class: "said" }, h("p", { class: "soft" }, say("said")), ...parts);

/** @param {string} name @param {Record<string, any>} [values] */
const p = (name, values) => h("p", {}, say(name, values));

/** Both collectors by name, address and contact; null where there are none. @param {Session["plan"]} plan */
function both({ collectors: [a, b] }) {
  if (!a) return null;
  const [nameA, nameB] = [a, b].map(({ name }) => `“${name}”`);
  return {
    nameA, nameB, one: `${nameA} (${a.url})`, other: `${nameB} (${b.url})`, contactA: a.contact, contactB: b.contact,
    host: location.host,
  };
}

/** A number in the page's language. @param {number} value */
const digits = (value) => value.toLocaleString(say("language"), { maximumSignificantDigits: 9 });

/** @param {number} seconds */
const day = (seconds) => new Date(1000 * seconds).toLocaleDateString(say("language"), { dateStyle: "long", timeZone: "UTC" });

/** Show another view; a screen reader reads its heading. Nobody asked for a ring around that of the first. @param {string} title @param {...(Node | string)} parts */
function show(title, ...parts) {
  const heading = h("h1", { tabindex: -1, class: !page.querySelector("h1[tabindex]") && "first" }, title);
  page.replaceChildren(heading, ...parts);
  document.title = title;
  heading.focus({ preventScroll: true });
  scrollTo(0, 0);
}

// --- questions ----------------------------------------------------------------------------------------------

/** @param {Column} column */
function range({ low, high }) {
  if (low > -Infinity && high < Infinity) return say("range", { low: digits(low), high: digits(high) });
  if (low > -Infinity) return say("atLeast", { low: digits(low) });
  return high < Infinity ? say("atMost", { high: digits(high) }) : say("any");
}

/** @param {any} label */
const labelled = (label) => (typeof label === "boolean" ? say(label ? "yes" : "no") : String(label));

/** What a text says as a number; a comma may stand for the point, but not where it may part thousands. @param {string} text */
const typed = (text) => (/^\s*[-+]?[0-9]*,[0-9]+\s*$/.test(text) && !/^\s*[-+]?[1-9][0-9]{0,2},[0-9]{3}\s*$/.test(text)
  ? text.replace(",", ".") : text).trim();

/** @param {Column} column @param {number} i @param {boolean} needed @returns {{box: HTMLElement, field: Field}} */
function question(column, i, needed) {
  const name = `q${i}`, flaw = h("span", { class: "flaw", id: `${name}-flaw` });
  const described = { "aria-describedby": `${name}-hint ${name}-flaw` };
  if (!column.levels.length) {
    const input = /** @type {HTMLInputElement} */ (
      h("input", { id: name, type: "text", inputmode: "decimal", autocomplete: "off", "aria-required": needed, ...described }));
    const hint = h("span", { class: "hint", id: `${name}-hint` }, range(column));
    const box = h("div", { class: "question" }, h("label", { for: name }, column.ask), hint, input, flaw);
    return { box, field: { column, input, flaw, text: () => input.value.trim(), value: () => typed(input.value), raw: () => input.value, put: (v) => { input.value = v; } } };
  }
  const labels = column.labels.length ? column.labels : column.levels.map(labelled);
  if (labels.length > MOST_CHOICES) {
    const options = [h("option", { value: "" }, say("none")), ...labels.map((l, j) => h("option", { value: j }, l))];
    const input = /** @type {HTMLSelectElement} */ (
      h("select", { id: name, autocomplete: "off", "aria-describedby": `${name}-flaw` }, ...options));
    const box = h("div", { class: "question" }, h("label", { for: name }, column.ask), input, flaw);
    const text = () => (input.value === "" ? "" : labels[Number(input.value)]);
    const raw = () => (input.value === "" ? "" : String(column.levels[Number(input.value)]));
    const put = (/** @type {string} */ v) => {
      const at = v === "" ? -1 : column.levels.map(String).indexOf(v);
      input.value = at < 0 ? "" : String(at);
    };
    return { box, field: { column, input, flaw, text, value: () => column.levels[Number(input.value)], raw, put } };
  }
  const inputs = labels.concat(needed ? [] : [say("none")]).map((label, j) => {
    const input = /** @type {HTMLInputElement} */ (
      h("input", { type: "radio", name, value: j, autocomplete: "off", "aria-describedby": `${name}-flaw` }));
    return { input, row: h("label", { class: "choice" }, input, h("span", {}, label)) };
  });
  const chosen = () => inputs.findIndex((one) => one.input.checked);
  const box = h("fieldset", { class: "question" }, h("legend", {}, column.ask), ...inputs.map((one) => one.row), flaw);
  const text = () => labels[chosen()] ?? "";
  const raw = () => (text() === "" ? "" : String(column.levels[chosen()] ?? ""));
  const put = (/** @type {string} */ v) => inputs.forEach((one, j) => { one.input.checked = v !== "" && String(column.levels[j]) === v; });
  return { box, field: { column, input: inputs[0].input, flaw, text, value: () => column.levels[chosen()], raw, put } };
}

/** A column as it is asked for: a response of which all but 0 and 1 is missing has these for its choices.
 * @param {Session["plan"]} plan @param {Column} column @returns {Column} */
function choices({ columns, response: { tree } }, column) {
  const of = (/** @type {number} */ v) => valueOf(tree, columns, new Map([[column.name, v]]));
  const two = !column.levels.length && [0, 1].every((v) => of(v) === v) && [-1, 0.5, 2].every((v) => Number.isNaN(of(v)));
  return two ? { ...column, levels: ["0", "1"] } : column;
}

/** What an answer out of bounds counts as, in digits; else nothing. @param {Field} field */
function counted({ column, value }) {
  const kept = column.levels.length ? null : read(column, value());
  return kept === null || kept === Number(value()) ? "" : digits(kept);
}

/** An answer as it was given, and what it counts as. @param {Field} field */
function answered(field) {
  if (field.text() === "") return say("none");
  return counted(field) ? say("countsAs", { typed: field.text(), counted: counted(field) }) : field.text();
}

/** Questions and answers, in the study's box. @param {string[][]} told */
function answers(told) {
  const rows = told.map(([question_, answer]) => h("tr", {}, h("td", {}, question_), h("td", {}, answer)));
  const head = h("tr", {}, h("th", { scope: "col" }, say("question")), h("th", { scope: "col" }, say("answer")));
  return said(h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)));
}

/** @param {Session} session @param {...Node} before what is said above the questions */
function ask(session, ...before) {
  const { plan } = session, mu = plan.together[0] / plan.together[1], needed = plan.missing === "refuse";
  const guess = {
    guess: Math.round(guesses(mu)), mu: digits(Number(mu.toPrecision(4))), studies: session.year?.length ?? 1,
    all: Math.round(guesses(session.together)),
  };
  const asked = plan.form.map((column, i) => question(choices(plan, translated(column)), i, needed)), fields = asked.map((one) => one.field);
  const consent = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "consent", autocomplete: "off", "aria-describedby": "consent-flaw" }));
  const flaw = h("span", { class: "flaw", id: "consent-flaw" }), alert = h("div", { class: "alert", role: "alert" });
  const heading = h("h2", { tabindex: -1 }, say("questions"));
  /** Answers that were doubted, and may be meant. @type {(string | undefined)[]} */
  const doubted = [];

  /** What can't be, and what stops once: an answer out of bounds, and an open question. @param {Field} field @param {number} i */
  function flawOf(field, i) {
    const { column, text, value } = field, open = text() === "";
    if (open && needed) return say("wrongMissing", { ask: column.ask });
    if (!open && read(column, value()) === null) return say("wrongNumber", { ask: column.ask });
    if (doubted[i] === text() || !(open || counted(field))) return "";
    doubted[i] = text();
    return open ? say("open") : say("outside", { range: range(column), counted: counted(field) });
  }

  /** @param {Event} event */
  function submit(event) {
    event.preventDefault();
    const flaws = fields.map(flawOf);
    fields.forEach((field, i) => {
      field.flaw.textContent = flaws[i];
      field.input.setAttribute("aria-invalid", String(flaws[i] !== ""));
    });
    flaw.textContent = consent.checked ? "" : say("wrongConsent");
    consent.setAttribute("aria-invalid", String(!consent.checked));
    const first = flaws.findIndex((f) => f !== "");
    alert.replaceChildren();
    if (first >= 0 || !consent.checked) {
      alert.append(p("wrongTitle"), ...(!needed && fields.some((f, i) => flaws[i] && f.text() === "") ? [p(plan.part.name || plan.table.length ? "blankPart" : "blank")] : []));
      (first >= 0 ? fields[first].input : consent).focus();
      return;
    }
    history.pushState(null, ""); // so that the browser's own way back leads to the questions too
    addEventListener("popstate", back, { once: true });
    const made = Object.fromEntries(fields.filter((f) => f.text() !== "").map((f) => [f.column.name, f.value()]));
    review(session, made, fields.map((f) => [f.column.ask, answered(f)]), back);
  }

  function back() {
    show(say("heading"), ...parts);
    heading.focus();
  }

  const saved = draft(session);
  fields.forEach((field) => field.put(saved[field.column.name] ?? ""));
  /** Whatever changes in the form. */
  const changed = () => keep(session, Object.fromEntries(fields.map((f) => [f.column.name, f.raw()]).filter(([, v]) => v !== "")));
  const forget = () => {
    keep(session);
    fields.forEach((field) => field.put(""));
  };

  const anew_ = Object.keys(ENGLISH).some((name) => given.has(name) && !["language", "direction"].includes(name));
  const parts = [
    ...languages(plan, () => ask(session, ...before)),
    ...before,
    said(h("h2", {}, own("title", plan.title)), ...own("purpose", plan.purpose).split("\n").map((line) => h("p", {}, line)),
      h("p", { class: "soft" }, say("contact", { contact: plan.contact, closes: day(plan.closes) }))),
    h("form", { novalidate: true, autocomplete: "off", onsubmit: submit, oninput: changed, onchange: changed },
      heading, h("p", { class: "soft" }, say("kept"), " ", h("button", { type: "button", class: "other small", id: "forget", onclick: forget }, say("forget"))), said(...asked.map((one) => one.box)),
      h("section", { class: "panel", "aria-labelledby": "privacy" },
        h("h2", { id: "privacy" }, say("privacy")),
        h("details", { open: true }, h("summary", {}, say("limitsTitle")), p("limits"), ...(needed ? [p("refuseNote")] : [])),
        p("stays"), p("guess", guess), picture(mu, (name) => say(name, guess)), p("year", guess),
        h("p", { class: "soft" }, say("guarantee", guess)), ...(pair ? [h("p", { class: "soft" }, say("contacts"))] : []),
        ...(anew_ ? [h("p", { lang: "en", dir: "ltr", id: "unchanged" },
          filled(UNCHANGED.map((name) => ENGLISH[named(name)]).join(" "), { ...pair, ...guess }))] : [])),
      h("div", { class: "question" }, h("label", { class: "choice", for: "consent" }, consent, h("span", {}, say("consent"))), flaw),
      alert, h("p", {}, h("button", { type: "submit" }, say("check"))), h("p", { class: "soft" }, say("next"))),
  ];
  show(say("heading"), ...parts);
}

/** The answers once more, before a report is made of them. @param {Session} session @param {import("../device/answer.js").Answers} made @param {string[][]} told @param {() => void} back */
function review(session, made, told, back) {
  const status = h("p", { role: "status", class: "soft" }, say("nothingYet")), alert = h("div", { class: "alert", role: "alert" });
  const again = h("button", { type: "button", class: "other", onclick: () => history.back() }, say("back"));
  const button = h("button", { type: "button", onclick: make }, say("make"));

  async function make() {
    for (const one of [button, again]) one.setAttribute("disabled", "");
    removeEventListener("popstate", back);
    alert.replaceChildren();
    status.textContent = say("making");
    try {
      await session.prepare(made);
      keep(session);
      preview(session, told);
    } catch (e) {
      for (const one of [button, again]) one.removeAttribute("disabled");
      addEventListener("popstate", back, { once: true });
      status.textContent = say("nothingYet");
      alert.append(p("refused", { reason: reason(e) }));
      alert.scrollIntoView();
    }
  }

  show(say("reviewTitle"), answers(told), alert, h("p", { class: "acts" }, button, again), status);
}

// --- what is sent -------------------------------------------------------------------------------------------

/** Wait, or until there is a connection again. @param {number} seconds @returns {Promise<void>} */
const pause = (seconds) => new Promise((resolve) => {
  const done = () => {
    clearTimeout(timer);
    removeEventListener("online", done);
    resolve();
  };
  const timer = setTimeout(done, 1000 * seconds);
  addEventListener("online", done);
});

/** @param {Session} session @param {string[][]} [told] questions and answers, if they are still known */
function preview(session, told) {
  const report = /** @type {NonNullable<typeof session.waiting>} */ (session.waiting);
  const bits = Math.max(...session.pending.map((one) => one.plan.bits));
  const radius = Math.max(...session.pending.map((one) => Number(one.plan.roles.get(/** @type {any} */ (one.report.role))?.radius)));
  const status = h("p", { role: "status" }), alert = h("div", { class: "alert", role: "alert" });
  const button = h("button", { type: "button", onclick: send }, say("send"));

  async function send() {
    button.setAttribute("disabled", "");
    alert.replaceChildren();
    status.textContent = say("sending");
    try {
      const arrived = await session.send((code) => { status.textContent = say(code === 0 ? "offline" : "busy"); });
      if (arrived) return done(session, "done");
      if (session.again !== null) return await anew(session);
      status.textContent = say("later");
      button.removeAttribute("disabled");
    } catch (e) { // to send the same again is of no use
      status.textContent = "";
      alert.append(h("p", {}, reason(e)));
    }
  }

  show(
    say("previewTitle"),
    ...(told ? [h("h2", {}, say("yours")), answers(told)] : [p("waitingNote")]),
    h("section", { class: "panel", "aria-labelledby": "sent" },
      h("h2", { id: "sent" }, say("sent")),
      ...(pair ? [] : [h("ul", { class: "numbers", id: "numbers" }, ...report.numbers.map((v) => h("li", {}, digits(v))))]),
      h("p", { class: "soft" }, say("sentNote", { radius: digits(radius), noise: digits(2 ** bits) })),
      h("details", {}, h("summary", {}, say("bytes")), h("pre", { id: "bytes" }, report.body))),
    alert, h("p", {}, button), h("p", { class: "soft" }, say("orNot")), status,
  );
}

/** Ask once more, as two collectors have deleted what they had. @param {Session} session */
async function anew(session) {
  await session.asks();
  ask(session, p("afresh"));
}

/** @param {Session} session @param {string} name */
function done(session, name) {
  show(
    say("doneTitle"), h("p", { role: "status" }, say(name)),
    h("section", { class: "panel", "aria-labelledby": "receipt-title" },
      h("h2", { id: "receipt-title" }, say("receipt")), h("code", { id: "receipt" }, String(session.receipt).replace(" ", "\n")),
      h("p", { class: "soft" }, say("receiptNote"))),
    said(h("p", {}, say("contact", { contact: session.plan.contact, closes: day(session.plan.closes) }))),
  );
}

// --- together -----------------------------------------------------------------------------------------------

/** @param {unknown} e what a respondent is told; what isn't the device's own is a fault of this page */
function reason(e) {
  if (e instanceof RefusedError) return e.message;
  console.error(e);
  return "this page has failed.";
}

/** A language that the browser can write numbers in. @param {string} language */
function known(language) {
  try {
    return Intl.getCanonicalLocales(language)[0] ?? ENGLISH.language;
  } catch {
    return ENGLISH.language;
  }
}

async function begin() {
  try {
    const session = await Session.begin(location.href, { sleep: pause });
    const { plan } = session, first = known(plan.texts.get("language") ?? ENGLISH.language).split("-")[0];
    const wanted = navigator.languages.map((one) => [first, ...plan.languages.keys()].find((code) => code === one || code.split("-")[0] === one.split("-")[0])).find((one) => one);
    speak(plan, wanted === first ? undefined : wanted);
    pair = both(plan);
    if (session.receipt !== null || session.waiting) keep(session); // what another tab entered meanwhile
    if (session.receipt !== null) done(session, "before");
    else if (session.waiting) preview(session);
    else if (session.again !== null) await anew(session);
    else {
      await session.asks();
      ask(session);
    }
  } catch (e) {
    const again = h("button", { type: "button", onclick: () => location.reload() }, say("again"));
    show(say("refusedTitle"), h("div", { class: "alert", role: "alert" }, p("refused", { reason: reason(e) })), h("p", {}, again));
  }
}

history.scrollRestoration = "manual"; // `show` and the focus say where a view begins
addEventListener("hashchange", () => location.reload());
begin();
