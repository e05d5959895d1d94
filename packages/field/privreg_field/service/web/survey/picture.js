/**
 * How sure anybody can be who sees a report: a bar from a coin toss to certainty.
 * @module
 */

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

/** @param {string} name @param {Record<string, string>} style @param {...(Node | string)} children */
function part(name, style, ...children) {
  const out = document.createElement("div");
  out.className = name;
  Object.assign(out.style, style);
  out.append(...children);
  return out;
}

/**
 * The bar, of elements whose words wrap, in the page's direction.
 * @param {number} mu
 * @param {(name: string) => string} say
 */
export function picture(mu, say) {
  const share = Math.min(Math.max((guesses(mu) - 50) / 50, 0), 1), percent = (/** @type {number} */ x) => `${100 * x}%`;
  // the words of the mark begin at it, end at it or are in the middle, wherever there is room
  const align = share < 0.3 ? "start" : share > 0.7 ? "end" : "center", half = Math.min(share, 1 - share);
  const [from, to] = { start: [share, 1], center: [share - half, share + half], end: [0, share] }[align];
  const ends = ["coin", "answers"].map((name) => Object.assign(document.createElement("span"), { textContent: say(name) }));
  const out = part(
    "picture", {},
    part("mark", { marginInlineStart: percent(from), width: percent(to - from), textAlign: align }, say("report")),
    part("line", { marginInlineStart: percent(share) }),
    part("whole", {}, part("share", { width: percent(share) })),
    part("ends", {}, ...ends),
  );
  out.setAttribute("role", "img");
  out.setAttribute("aria-label", say("picture"));
  return out;
}
