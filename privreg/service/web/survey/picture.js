/**
 * How sure anybody can be who sees a report: a bar from a coin toss to certainty.
 * @module
 */

const NS = "http://www.w3.org/2000/svg";
const LEFT = 8, WIDTH = 304;

/**
 * Φ(x), for |x| ≤ 6, by its series: x + x³/3 + x⁵/(3·5) + … times the density.
 * @param {number} x
 */
export function normal(x) {
  let sum = 0, term = x;
  for (let k = 1; k < 200; k += 1) {
    sum += term;
    term *= (x * x) / (2 * k + 1);
  }
  return 0.5 + (sum * Math.exp(-0.5 * x * x)) / Math.sqrt(2 * Math.PI);
}

/** Right guesses of 100, at best, of two equally likely records: 100 Φ(μ/2). @param {number} mu */
export const guesses = (mu) => 100 * normal(mu / 2);

/** @param {string} tag @param {Record<string, string | number>} given @param {string} [text] */
function part(tag, given, text) {
  const out = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(given)) out.setAttribute(name, String(value));
  if (text !== undefined) out.textContent = text;
  return out;
}

/**
 * The bar.
 * @param {number} mu
 * @param {(name: string) => string} say
 */
export function picture(mu, say) {
  const out = part("svg", { viewBox: "0 0 320 84", role: "img", class: "picture", "aria-label": say("picture") });
  const share = Math.min(Math.max((guesses(mu) - 50) / 50, 0), 1), at = LEFT + share * WIDTH;
  const anchor = share < 0.3 ? "start" : share > 0.7 ? "end" : "middle";
  out.append(
    part("text", { x: at, y: 16, "text-anchor": anchor, class: "mark" }, say("report")),
    part("path", { d: `M${at} 22v10`, class: "line" }),
    part("rect", { x: LEFT, y: 32, width: WIDTH, height: 20, rx: 3, class: "whole" }),
    part("rect", { x: LEFT, y: 32, width: share * WIDTH, height: 20, rx: 3, class: "share" }),
    part("text", { x: LEFT, y: 72 }, say("coin")),
    part("text", { x: LEFT + WIDTH, y: 72, "text-anchor": "end" }, say("answers")),
  );
  return out;
}
