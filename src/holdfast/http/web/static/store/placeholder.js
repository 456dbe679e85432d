/** An image for products without one: waves whose shape and colour are derived from the sale's id. */
import { html } from "./html.js";

const PALETTES = [
  ["#cfe8e2", "#8cc9bd", "#3f9a8d", "#0f766e", "#0a4f4a"],
  ["#f5dfc8", "#eab98a", "#d98b55", "#b35f37", "#6f3523"],
  ["#dcdcf5", "#b3b2e6", "#8280cf", "#5754a8", "#33316e"],
  ["#f3d9dd", "#e2a6b0", "#c76d7f", "#9c4459", "#5f2638"],
  ["#d9e7f2", "#a6c8e0", "#679fc7", "#38749f", "#1f4763"],
];

/** FNV-1a. */
export function hashOf(text) {
  let hash = 0x811c9dc5;
  for (const letter of text) hash = Math.imul(hash ^ letter.codePointAt(0), 0x01000193) >>> 0;
  return hash;
}

/** A linear congruential generator of numbers from 0 to 1. */
function* randoms(seed) {
  let state = seed || 1;
  for (;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}

function wave(level, random) {
  const height = () => Math.round(level + (random.next().value - 0.5) * 90);
  const [a, b, c, d] = [height(), height(), height(), height()];
  return `M0 ${a} C 130 ${b} 230 ${c} 400 ${d} S 660 ${b} 800 ${a} V 1000 H 0 Z`;
}

export function Placeholder({ id }) {
  const random = randoms(hashOf(id));
  const palette = PALETTES[hashOf(id) % PALETTES.length];
  const sun = { x: 200 + random.next().value * 400, y: 190 + random.next().value * 120, r: 90 + random.next().value * 50 };
  const levels = [470, 600, 720, 850];
  return html`
    <svg class="image" viewBox="0 0 800 1000" preserveAspectRatio="xMidYMid slice" aria-hidden="true">
      <rect width="800" height="1000" fill=${palette[0]} />
      <circle cx=${sun.x} cy=${sun.y} r=${sun.r} fill="#fffdf6" opacity="0.85" />
      ${levels.map((level, index) => html`<path d=${wave(level, random)} fill=${palette[index + 1]} />`)}
    </svg>
  `;
}
