// Units sold over time: Holdfast, the shops, and the limit that no shop should exceed.

import { html } from "../console/html.mjs";
import { count, seconds } from "./format.mjs";

const WIDTH = 640, HEIGHT = 240, LEFT = 44, RIGHT = 8, TOP = 10, BOTTOM = 24;

export function Chart({ snapshot }) {
  const { points, shops, options } = snapshot;
  if (points.length < 2) return null;
  const lastS = Math.max(points.at(-1)[0], options.seconds);
  const most = 1.06 * Math.max(options.units * 1.1, ...points.map(([, promised, orders, sold]) => Math.max(promised, orders, ...sold)));
  const x = (atS) => LEFT + ((WIDTH - LEFT - RIGHT) * atS) / lastS;
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * value) / most;
  const line = (valueOf) => points.map((point) => `${x(point[0]).toFixed(1)},${y(valueOf(point)).toFixed(1)}`).join(" ");
  return html`
    <section class="card chart" aria-labelledby="chart-title">
      <h2 id="chart-title">Sold over time</h2>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Units sold over time at Holdfast and ${shops.length} other shops">
        <rect class="too-many" x=${LEFT} y=${TOP} width=${WIDTH - LEFT - RIGHT} height=${Math.max(0, y(options.units) - TOP)} />
        ${snapshot.faults.map((note) => html`<line class="fault-line" x1=${x(note.at_s)} x2=${x(note.at_s)} y1=${TOP} y2=${HEIGHT - BOTTOM} />`)}
        <line class="limit" x1=${LEFT} x2=${WIDTH - RIGHT} y1=${y(options.units)} y2=${y(options.units)} />
        ${shops.map((shop, index) => html`<polyline key=${shop.name} class="line shop-${index}" points=${line((point) => point[3][index] ?? 0)} />`)}
        <polyline class="line promised" points=${line((point) => point[1])} />
        <polyline class="line ours" points=${line((point) => point[2])} />
        <text x=${LEFT - 6} y=${y(options.units) + 4} text-anchor="end">${count(options.units)}</text>
        <text x=${LEFT - 6} y=${y(0)} text-anchor="end">0</text>
        <text x=${LEFT} y=${HEIGHT - 6}>0 s</text>
        <text x=${WIDTH - RIGHT} y=${HEIGHT - 6} text-anchor="end">${seconds(lastS)}</text>
      </svg>
      <ul class="legend">
        <li class="ours">Holdfast: sold</li>
        <li class="promised">Holdfast: promised</li>
        ${shops.map((shop, index) => html`<li class="shop-${index}">${shop.title}</li>`)}
      </ul>
    </section>`;
}
