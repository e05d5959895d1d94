// What a view is drawn of: elements, numbers in words, pictures. It imports nothing: uPlot is handed in.

const AROUND = 3; // Widths of the last interval that a vertical axis shows on either side, at most
export const whole = (n) => Math.round(n).toLocaleString("en");
export const rough = (n) => whole(Number(n.toPrecision(2)));
export const percent = (a, b) => (b > 0 ? `${((100 * a) / b).toFixed(1)}%` : "–");
export const when = (seconds) =>
  new Date(seconds * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

/** An element with attributes and children; never any HTML. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A number to as many digits as its standard error deserves. */
export function number(value, error) {
  if (value === null) return "–";
  const digits = error > 0 ? Math.min(Math.max(1 - Math.floor(Math.log10(error) + 1e-9), 0), 12) : 4;
  return value.toFixed(digits).replace("-", "−");
}

export const interval = (low, high, error) => (low === null ? "–" : `${number(low, error)} to ${number(high, error)}`);

/**
 * Reports still needed until an interval is so wide, if standard errors go on falling as 1/√n.
 * @param {any} results
 * @param {number} error the present standard error
 * @param {number} width
 * @param {"once" | "always"} kind valid at one look, or at every look
 * @returns {number | null} null: more than the table reaches
 */
export function needed(results, error, width, kind) {
  const { times, once, always } = results.ahead;
  const wide = times.map((m, i) => {
    const critical = kind === "once" ? once : always[i];
    return critical === null ? Infinity : (2 * critical * error) / Math.sqrt(m);
  });
  const i = wide.findIndex((w) => w <= width);
  if (i < 0) return null;
  let m = times[i];
  if (i > 0 && Number.isFinite(wide[i - 1])) {
    const share = Math.log(wide[i - 1] / width) / Math.log(wide[i - 1] / wide[i]);
    m = times[i - 1] * (times[i] / times[i - 1]) ** share;
  }
  return Math.ceil(Math.max(results.senders * (m - 1), 0));
}

/** A picture of uPlot that keeps its holder's width. */
export class Plot {
  constructor(uPlot, holder, height, options) {
    const data = options.series.map(() => []);
    const width = () => Math.max(holder.clientWidth, 120);
    const given = { width: width(), height, legend: { show: false }, cursor: { show: false }, ...options };
    this.plot = new uPlot(given, data, holder);
    this.watch = new ResizeObserver(() => this.plot.setSize({ width: width(), height }));
    this.watch.observe(holder);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.again = () => this.plot.redraw();
    this.scheme.addEventListener("change", this.again);
  }

  destroy() {
    this.watch.disconnect();
    this.scheme.removeEventListener("change", this.again);
    this.plot.destroy();
  }
}

/** Times of day, with the day where it changes. */
export function clock(ticks) {
  let before = "";
  return ticks.map((t) => {
    const at = new Date(t * 1000);
    const day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    const time = at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    const words = day === before ? time : time === "00:00" ? day : `${time}\n${day}`;
    before = day;
    return words;
  });
}

/** Limits of a vertical axis: all of the way, but no more about its end than a few widths. */
export function around([, ...curves]) {
  const values = curves.flat().filter((v) => v !== null && v !== undefined);
  if (!values.length) return [0, 1];
  let [least, most] = [Math.min(...values), Math.max(...values)];
  const ends = curves.map((c) => c.at(-1)).filter((v) => v !== null && v !== undefined);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  if (high > low)
    [least, most] = [Math.max(least, low - AROUND * (high - low)), Math.min(most, high + AROUND * (high - low))];
  const margin = 0.05 * (most - least) || Math.abs(most) * 0.05 || 1;
  return [least - margin, most + margin];
}

/** One coefficient's intervals, on a scale of their own. */
export function forest(c) {
  const picture = svg("svg", { viewBox: "0 0 200 24", "aria-hidden": "true", focusable: "false" });
  if (c.low === null) return picture;
  const half = 1.15 * Math.max(c.high - c.estimate, (c.always_high ?? c.estimate) - c.estimate) || 1;
  const x = (v) => 100 + (92 * (v - c.estimate)) / half;
  picture.append(svg("line", { x1: 0, x2: 200, y1: 12, y2: 12, class: "pr-axis" }));
  if (c.always_low !== null)
    picture.append(svg("line", { x1: x(c.always_low), x2: x(c.always_high), y1: 12, y2: 12, class: "pr-always" }));
  picture.append(svg("line", { x1: x(c.low), x2: x(c.high), y1: 12, y2: 12, class: "pr-look" }));
  for (const v of [c.low, c.high]) picture.append(svg("line", { x1: x(v), x2: x(v), y1: 7, y2: 17, class: "pr-look" }));
  picture.append(svg("circle", { cx: 100, cy: 12, r: 4, class: "pr-point" }));
  if (Math.abs(x(0) - 100) <= 100) picture.append(svg("line", { x1: x(0), x2: x(0), y1: 1, y2: 23, class: "pr-zero" }));
  else
    picture.append(
      svg(
        "text",
        { x: x(0) < 0 ? 0 : 200, y: 9, "text-anchor": x(0) < 0 ? "start" : "end", class: "pr-said" },
        x(0) < 0 ? "‹ 0" : "0 ›",
      ),
    );
  return picture;
}
