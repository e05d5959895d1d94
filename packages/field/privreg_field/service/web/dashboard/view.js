// The view of a study: drawn on its page and in a notebook from the same two records, `progress` and `results`.
// uPlot is handed in.
import {
  Plot,
  around,
  clock,
  el,
  forest,
  interval,
  needed,
  number,
  percent,
  rough,
  svg,
  when,
  whole,
} from "./curves.js";

const OUTCOMES = [
  ["new", "Counted", "counted"],
  ["same", "Again", "sent again, counted once"],
  ["other", "Used", "refused: token used"],
  ["refused", "Other", "refused: other reasons"],
];
const CURVES = 12; // Coefficients whose way is drawn, at most

/**
 * What the phase of a study is called.
 * @param {any} p counts, as the server's `progress` has them
 */
export function phase(p) {
  const now = p.rounds.at(-1);
  const asks = now && `${now.role}${now.ends === null ? ", stays open" : `, closes at ${whole(now.ends)} reports`}`;
  const [study, until, state, collector, rest] = {
    before: ["not open yet", `opens ${when(p.opens)}`, "asks nobody yet", "ready", "Not yet"],
    open: ["open", `until ${when(p.closes)}`, asks, "goes on", "Not yet"],
    closing: [
      "closed; reports on their way count",
      `until ${when(p.closes + p.grace)}`,
      "asks nobody",
      "goes on",
      "Not yet",
    ],
    closed: ["closed", "", "asks nobody", "finished", "No estimates"],
  }[p.status];
  return { study, until, state, collector, rest };
}

/** All of a study that is shown. */
export class View {
  /**
   * @param {any} uPlot
   * @param {HTMLElement} root
   */
  constructor(uPlot, root) {
    this.uPlot = uPlot;
    this.root = root;
    this.last = { progress: null, results: null };
    this.plots = [];
    root.classList.add("pr");
    this.parts = {};
    this.sections = {};
    const part = (name, heading, wide, ...children) => {
      const id = `pr-${name}-${Math.random().toString(36).slice(2, 8)}`;
      this.parts[name] = el("div");
      const made = el("section", { "aria-labelledby": id, class: wide ? "pr-wide" : "" });
      made.append(el("h2", { id }, heading), ...children, this.parts[name]);
      root.append(made);
      this.sections[name] = made;
      return made;
    };
    part("now", "Now", true);
    part("coefficients", "Coefficients", true);
    part("path", "Coefficients as reports come", true);
    this.#minutes(part("minutes", "Reports by minute", false));
    this.#needs(part("needs", "Reports still needed", false));
    part("rounds", "Rounds", true);
  }

  colour(name) {
    return getComputedStyle(this.root).getPropertyValue(`--${name}`).trim();
  }

  axis(more) {
    const soft = () => this.colour("soft");
    const line = () => this.colour("line");
    return {
      stroke: soft,
      grid: { stroke: line, width: 1 },
      ticks: { stroke: line, width: 1, size: 4 },
      font: "12px system-ui",
      ...more,
    };
  }

  // --- what came ----------------------------------------------------------------------------------------

  /** @param {any} p counts, as the server's `progress` has them */
  progress(p) {
    this.last.progress = p;
    this.#now();
    this.#bars();
    this.#rounds(p);
    if (this.last.results) this.#said();
  }

  #now() {
    const { progress: p, results: r } = this.last;
    if (p === null) return;
    const { study, until, state, collector } = phase(p);
    const [mu, all] = [p.mu, p.together].map(([above, below]) => above / below);
    const items = [
      [
        "Reports",
        whole(p.people),
        p.issued
          ? `of ${whole(p.issued)} invited, ${percent(p.people, p.issued)}`
          : p.planned
            ? `of ${whole(p.planned)} planned`
            : "",
      ],
      ["In the estimate", r?.ready ? whole(r.senders) : "–", r?.path === null ? "" : "answered a main round"],
      ["Late, counted", whole(p.late), percent(p.late, p.people)],
      ["State", `${p.state}`, state],
      ["Study", study, until],
      [
        "Guarantee, each person",
        `${mu.toLocaleString("en")}-GDP`,
        (r?.guarantee?.replace(/^[^,]*, /, "") ?? (p.collectors.length ? "noise on sums" : "devices randomise")) +
          (mu < all ? `; all analyses together ${all.toLocaleString("en")}-GDP` : ""),
      ],
    ];
    for (const c of p.collectors) {
      const came = c.batches === null ? "" : `${whole(c.batches)} batches over, ${whole(c.reports)} reports`;
      items.push([c.name, c.lags ? "lags" : collector, came]);
    }
    const made = items.map(([name, value, more]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, value, el("small", {}, more))),
    );
    this.parts.now.replaceChildren(el("dl", {}, ...made));
  }

  #minutes(section) {
    const choice = el(
      "select",
      {},
      el("option", { value: "recent" }, "the last three hours, by minute"),
      el("option", { value: "whole" }, "the whole study"),
    );
    choice.addEventListener("change", () => this.#bars());
    this.choice = choice;
    const legend = OUTCOMES.map(([name, , words]) => el("li", {}, el("i", { class: `pr-${name}` }), words));
    this.caption = el("figcaption");
    this.holder = el("div", { class: "pr-plot", role: "img" });
    this.lines = el("tbody");
    const heads = ["From", ...OUTCOMES.map(([, words]) => words)].map((words) => el("th", { scope: "col" }, words));
    const table = el(
      "table",
      { class: "pr-narrow" },
      el("caption", {}, "The last ten bars as numbers"),
      el("thead", {}, el("tr", {}, ...heads)),
      this.lines,
    );
    section.append(
      el("div", { class: "pr-row" }, el("label", {}, "Show", choice)),
      el("ul", { class: "pr-legend" }, ...legend),
      el("figure", {}, this.holder, this.caption),
      el("details", {}, el("summary", {}, "Numbers"), table),
    );
  }

  #bars() {
    const p = this.last.progress;
    if (p === null) return;
    const bins = p[this.choice.value];
    const x = bins.new.map((_, i) => (bins.first + i * bins.width) * 60);
    const sums = bins.new.map(() => 0);
    const stacked = OUTCOMES.map(([name]) => bins[name].map((n, i) => (sums[i] += n)));
    if (!this.bars) {
      const bars = this.uPlot.paths.bars({ size: [0.8, 40], align: 1 });
      const series = OUTCOMES.map(([name]) => ({
        fill: () => this.colour(name),
        width: 0,
        points: { show: false },
        paths: bars,
      })).reverse();
      this.bars = new Plot(this.uPlot, this.holder, 220, {
        series: [{}, ...series],
        axes: [
          this.axis({ values: (_, ticks) => clock(ticks), space: 70 }),
          this.axis({ size: 56, values: (_, ticks) => ticks.map((v) => (Number.isInteger(v) ? whole(v) : "")) }),
        ],
        scales: {
          x: {
            range: ({ data: [x] }) => {
              const [first, last] = [x[0] ?? 0, x.at(-1) ?? 0]; // uPlot's own limits about a single bar are years apart
              return [Math.min(first, last - 9 * 60 * this.width), last + 60 * this.width];
            },
          },
          y: { range: (_u, _low, high) => [0, Math.max(high, 4) * 1.05] },
        },
      });
      this.plots.push(this.bars);
    }
    this.width = bins.width;
    this.bars.plot.setData([x, ...stacked.reverse()]);
    const total = OUTCOMES.map(([name, , words]) => `${whole(bins[name].reduce((a, b) => a + b, 0))} ${words}`).join(
      "; ",
    );
    const [many, unit] = bins.width < 60 ? [bins.width, "minute"] : [bins.width / 60, "hour"];
    const span = many === 1 ? unit : `${many} ${unit}s`;
    this.holder.setAttribute("aria-label", `Reports by ${span}: ${total}.`);
    this.caption.textContent = `A bar is ${many > 1 ? "" : unit === "hour" ? "an " : "a "}${span}. Shown: ${total}.`;
    const from = Math.max(x.length - 10, 0);
    const times = clock(x.slice(from));
    const rows = times.map((_, i) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, times[i].replace("\n", ", ")),
        ...OUTCOMES.map(([name]) => el("td", {}, whole(bins[name][from + i]))),
      ),
    );
    this.lines.replaceChildren(...rows.reverse());
  }

  #rounds(p) {
    const most = Math.max(...p.rounds.map((r) => Math.max(r.reports, r.fetched, r.ends ?? 0)), 1);
    const rows = p.rounds.map((r) => {
      const bar = svg("svg", {
        viewBox: "0 0 200 16",
        preserveAspectRatio: "none",
        "aria-hidden": "true",
        focusable: "false",
      });
      const asked = Math.max(r.fetched, r.ends ?? 0);
      bar.append(
        svg("rect", { x: 0.5, y: 2.5, width: Math.max((198 * asked) / most, 0.5), height: 11, class: "pr-asked" }),
      );
      bar.append(svg("rect", { x: 0.5, y: 4.5, width: (198 * r.reports) / most, height: 7, class: "pr-got" }));
      const now = !r.open ? "closed" : r.ends === null ? "open" : `open to ${whole(r.ends)}`;
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, `${r.state} ${r.role}`),
        el("td", {}, whole(r.reports)),
        el("td", {}, whole(r.fetched)),
        el("td", {}, now),
        el("td", { class: "pr-picture" }, bar),
      );
    });
    const heads = ["State", "Reports", "Fetched", "Now"].map((words) => el("th", { scope: "col" }, words));
    const table = el(
      "table",
      { class: "pr-narrow" },
      el("caption", {}, "Filled: reports received. Outlined: states fetched, or the reports that close it."),
      el("thead", {}, el("tr", {}, ...heads, el("td", { class: "pr-picture" }))),
      el("tbody", {}, ...rows.reverse()),
    );
    const ahead = p.ahead.map(
      (r) => `${r.role}${r.reports ? ` of ${whole(r.reports)}` : ""}${r.optional ? " (if it pays)" : ""}`,
    );
    const counted = new Map();
    for (const words of ahead) counted.set(words, (counted.get(words) ?? 0) + 1);
    const told = [...counted].map(([words, n]) => (n > 1 ? `${n} × ${words}` : words)).join(", ");
    this.parts.rounds.replaceChildren(
      el(
        "p",
        {},
        p.status === "open" || p.status === "before"
          ? told
            ? `Planned after this one: ${told}.`
            : "This is the last round that is planned."
          : "The study asks nobody any more.",
      ),
      table,
      el(
        "p",
        { class: "pr-soft" },
        "Fetched counts answers of this server that held the state; a device may fetch more than once, and a cache between hands out more. Late reports count for the state that they answered.",
      ),
    );
  }

  // --- what is known ------------------------------------------------------------------------------------

  /** @param {any} r estimates, as the server's `results` has them */
  results(r) {
    this.last.results = r;
    this.#now();
    this.#said();
    if (!r.ready) return;
    this.sections.path.hidden = this.sections.needs.hidden = r.path === null;
    this.sections.minutes.classList.toggle("pr-wide", r.path === null);
    if (r.path === null) return;
    this.#ways(r);
    this.#terms(r);
  }

  /** Coefficients as a table; what holds depends on whether the study is open. */
  #said() {
    const { progress: p, results: r } = this.last;
    if (!r.ready) {
      this.parts.coefficients.replaceChildren(el("p", {}, `${p ? phase(p).rest : "Not yet"}: ${r.why}`));
      return;
    }
    const open = p?.status !== "closed";
    const still = p?.status === "closing" ? "Reports on their way still count" : "The study is open";
    this.sections.coefficients.firstChild.textContent = r.path === null ? "Means and shares" : "Coefficients";
    const level = `${Math.round(100 * r.level)}%`;
    const begun = r.senders >= r.first;
    const way = r.path !== null; // A table has none, nor what goes by it
    const why = el("p");
    if (!open)
      why.append(
        el("span", { class: "pr-good" }, "The study has closed. "),
        "The interval for one look is final if the study closed when its plan said; if it was closed because of what was seen, use the one that holds at every look.",
      );
    else if (r.method === null) why.append("There are no intervals yet: they begin with main rounds.");
    else if (begun && r.ahead)
      why.append(
        el("span", { class: "pr-warn" }, `${still}: no interval is final. `),
        "“Every look” holds however often you look and whenever you stop. “One look” holds at an end that was fixed before; it is not valid for stopping early.",
      );
    else if (r.ahead)
      why.append(
        el("span", { class: "pr-warn" }, "Not valid for stopping early. "),
        `${still}, and the interval that holds at every look begins at ${whole(r.first)} reports that enter the estimate; ${whole(r.senders)} have come. “One look” holds at an end that was fixed before.`,
      );
    else
      why.append(
        el("span", { class: "pr-warn" }, "Not valid for stopping early. "),
        `Intervals are by ${r.method}, for one look at an end that was fixed before; ${way ? "the plan asks for" : "a table has"} none that could hold at every look.`,
      );
    const head = (words) => el("th", { scope: "col", role: "columnheader" }, words);
    const cell = (label, value) => el("td", { role: "cell", "data-label": label }, value);
    const rows = r.coefficients.map((c) => {
      const name = el("th", { scope: "row", role: "rowheader" }, c.term);
      if (!c.reliable) name.append(" ", el("span", { class: "pr-warn" }, "(don’t rely on it yet)"));
      const error = c.std_error;
      return el(
        "tr",
        { role: "row" },
        name,
        cell("Estimate", number(c.estimate, error)),
        ...(way ? [cell(`${level}, every look`, interval(c.always_low, c.always_high, error))] : []),
        cell(`${level}, one look`, interval(c.low, c.high, error)),
        el("td", { role: "cell", class: "pr-picture" }, forest(c)),
      );
    });
    const table = el(
      "table",
      { class: "pr-cards", role: "table" },
      el(
        "caption",
        {},
        `${way ? "Thick: every look. Thin: one" : "One"} look${r.method ? `, by ${r.method}` : ""}. Dotted: zero. Each row has its own scale.`,
      ),
      el(
        "thead",
        { role: "rowgroup" },
        el(
          "tr",
          { role: "row" },
          head(way ? "Coefficient" : "Mean or share"),
          head("Estimate"),
          ...(way ? [head(`${level}, every look`)] : []),
          head(`${level}, one look`),
          el("td", { role: "cell" }),
        ),
      ),
      el("tbody", { role: "rowgroup" }, ...rows),
    );
    const notes = r.notes.map((words) => el("li", {}, words));
    this.parts.coefficients.replaceChildren(
      why,
      table,
      ...(notes.length ? [el("ul", { class: "pr-soft" }, ...notes)] : []),
    );
  }

  /** Estimates and intervals against the number of reports. */
  #ways(r) {
    const drawn = r.coefficients.slice(0, CURVES);
    if (this.ways?.length !== drawn.length) {
      this.ways?.forEach((one) => one.plot.destroy());
      this.ways = drawn.map(() => this.#way());
      const legend = el(
        "ul",
        { class: "pr-legend" },
        el("li", {}, el("i", { class: "pr-band" }), "every look"),
        el("li", {}, el("i", { class: "pr-once" }), "one look: not valid for stopping early"),
      );
      const rest = r.coefficients.length - drawn.length;
      const more = rest > 0 ? [el("p", { class: "pr-soft" }, `The first ${CURVES}; the table has ${rest} more.`)] : [];
      this.parts.path.replaceChildren(
        legend,
        el("div", { class: "pr-curves" }, ...this.ways.map((one) => one.figure)),
        ...more,
      );
    }
    this.ways.forEach((one, j) => {
      const c = r.path.coefficients[j];
      const { term, estimate, std_error: error, low, high } = r.coefficients[j];
      one.title.textContent = term;
      one.plot ??= this.#curve(one.holder);
      one.plot.plot.setData([r.path.people, c.always_high, c.always_low, c.high, c.low, c.estimate]);
      const words = `${number(estimate, error)}, interval for one look ${interval(low, high, error)}, after ${whole(r.nobs)} reports`;
      one.holder.setAttribute("aria-label", `${term} against the number of reports: now ${words}.`);
    });
  }

  #way() {
    const title = el("h3");
    const holder = el("div", { class: "pr-plot", role: "img" });
    return { title, holder, figure: el("figure", {}, title, holder, el("figcaption", {}, "reports")), plot: null };
  }

  #curve(holder) {
    const line = (more) => ({
      points: { show: (u) => u.data[0].length < 2, size: 6 },
      stroke: () => this.colour("soft"),
      width: 1,
      ...more,
    });
    const band = { stroke: () => this.colour("main"), width: 0.5 };
    const fine = (_u, ticks, _axis, _space, step) => ticks.map((v) => number(v, step));
    const short = (_, ticks) => ticks.map((v) => (v >= 1e6 ? `${v / 1e6}M` : v >= 1e3 ? `${v / 1e3}k` : `${v}`));
    const made = new Plot(this.uPlot, holder, 200, {
      series: [
        {},
        line(band),
        line(band),
        line({ dash: [4, 3] }),
        line({ dash: [4, 3] }),
        line({ stroke: () => this.colour("ink"), width: 2 }),
      ],
      bands: [{ series: [1, 2], fill: () => this.colour("band") }],
      axes: [this.axis({ values: short, space: 60, size: 30 }), this.axis({ size: 64, values: fine })],
      scales: { x: { time: false }, y: { range: (u) => around(u.data) } },
    });
    this.plots.push(made);
    return made;
  }

  // --- what is still needed -----------------------------------------------------------------------------

  #needs(section) {
    this.term = el("select");
    this.wanted = el("input", { type: "number", min: "0", step: "any", inputmode: "decimal" });
    this.answer = el("p", { role: "status" });
    this.term.addEventListener("change", () => this.#need());
    this.wanted.addEventListener("input", () => this.#need());
    section.append(
      el(
        "div",
        { class: "pr-row" },
        el("label", {}, "Coefficient", this.term),
        el("label", {}, "Width of its 95% interval, at most", this.wanted),
      ),
      this.answer,
      el(
        "p",
        { class: "pr-soft" },
        "This is rough, above all while main rounds are few. It supposes that standard errors go on falling as one over the square root of the number of reports in main rounds. Only such reports are counted, from now on.",
      ),
    );
  }

  #terms(r) {
    const names = r.coefficients.map((c) => c.term);
    if (this.term.options.length !== names.length) {
      this.term.replaceChildren(...names.map((name, j) => el("option", { value: `${j}` }, name)));
      this.term.value = `${Math.max(
        names.findIndex((name) => !name.endsWith("Intercept")),
        0,
      )}`;
    }
    this.#need();
  }

  #need() {
    const { progress: p, results: r } = this.last;
    const say = (words) => {
      if (this.answer.textContent !== words) this.answer.textContent = words;
    };
    if (!r?.ready) return;
    const c = r.coefficients[Number(this.term.value)];
    if (!r.ahead || c.std_error === null) return say("There is no standard error yet to go by.");
    const at = (times) => number((2 * r.ahead.once * c.std_error) / Math.sqrt(times), c.std_error / 10);
    const left = p?.planned ? Math.max(p.planned - r.nobs, 0) : 0;
    const plan = left ? ` At the ${whole(p.planned)} reports of the plan it would be ${at(1 + left / r.senders)}.` : "";
    const width = Number(this.wanted.value);
    if (!(width > 0)) return say(`Now the interval for one look is ${at(1)} wide.${plan}`);
    const words = (kind) => {
      const more = needed(r, c.std_error, width, kind);
      return more === null
        ? `more than ${rough(r.senders * r.ahead.times.at(-1))}`
        : more === 0
          ? "none"
          : `about ${rough(more)}`;
    };
    say(
      `Reports still needed: ${words("once")} for one look at the end; ${words("always")} for every look. Now it is ${at(1)} wide at one look.${plan}`,
    );
  }

  destroy() {
    this.plots.forEach((one) => one.destroy());
  }
}
