// A time-series chart, redrawn only when there is new data. At most one chart is drawn per frame, so that many of them
// do not block the page.
import uPlot from "../vendor/uplot.mjs";
import { html, useEffect, useRef } from "./html.mjs";

// A new chart starts with a short window, so that the first minute is readable.
const MIN_WINDOW_S = 60;
const MAX_WINDOW_S = 300;
const HEIGHT = 132;
const dark = matchMedia("(prefers-color-scheme: dark)");

const pending = new Map();

/** Several requests for one chart before its turn are drawn once. */
function scheduleDraw(chart, draw) {
  if (!pending.size) requestAnimationFrame(drawNext);
  pending.set(chart, draw);
}

function drawNext() {
  const [[chart, draw]] = pending;
  pending.delete(chart);
  draw();
  if (pending.size) requestAnimationFrame(drawNext);
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function optionsOf(series, width, view) {
  const axis = { stroke: colour("quiet"), font: "11px system-ui", grid: { stroke: colour("line"), width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    hooks: { draw: [(chart) => drawMarks(chart, view.marks)] },
    scales: {
      x: { time: true, range: (_chart, least, most) => windowOf(least, most, view.isWhole) },
      y: { range: (_chart, _least, most) => [0, Math.max(most ?? 0, 4) * 1.1] },
    },
    axes: [
      { ...axis, space: 90, size: 22, values: (_chart, ticks) => ticks.map((tick) => new Date(tick * 1000).toTimeString().slice(0, 8)) },
      { ...axis, space: 34, size: 44, values: (_chart, ticks) => ticks.map((tick) => compact.format(tick)) },
    ],
    series: [{}, ...series.map((one) => ({
      stroke: colour(one.colour),
      width: 2,
      dash: one.dash,
      fill: one.filled ? `color-mix(in srgb, ${colour(one.colour)} 18%, transparent)` : undefined,
      points: { show: false },
      spanGaps: false,
    }))],
  };
}

/** A line where something was done to the sale. What it was is in the list of events. */
function drawMarks(chart, marks) {
  const { left, top, width, height } = chart.bbox;
  const { ctx } = chart;
  ctx.save();
  ctx.strokeStyle = colour("quiet");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const mark of marks) {
    const x = Math.round(chart.valToPos(Date.parse(mark.at) / 1000, "x", true));
    if (x < left || x > left + width) continue;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
  }
  ctx.restore();
}

function windowOf(least, most, isWhole) {
  const until = most ?? Date.now() / 1000;
  if (isWhole) return [Math.min(least ?? until, until - MIN_WINDOW_S), until];
  return [until - Math.min(Math.max(until - (least ?? until), MIN_WINDOW_S), MAX_WINDOW_S), until];
}

/** `series`: [{name, label, colour, show}]; a new `version` means that the history has grown. */
export function Chart({ title, history, series, version, marks, isWhole }) {
  const view = useRef({}).current;
  Object.assign(view, { marks, isWhole });
  const container = useRef(null);
  const plot = useRef(null);
  useEffect(() => {
    const element = container.current;
    const make = () => {
      plot.current?.destroy();
      plot.current = new uPlot(optionsOf(series, element.clientWidth, view), dataOf(history, series), element);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    dark.addEventListener("change", make);
    return () => {
      dark.removeEventListener("change", make);
      resized.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [history]);
  useEffect(() => {
    scheduleDraw(plot, () => plot.current?.setData(dataOf(history, series)));
  }, [history, version]);
  const highest = Math.round(Math.max(0, ...history.columns[series[0].name]));
  return html`<figure class="chart card" data-highest=${highest}>
    <figcaption><h2>${title}</h2></figcaption>
    <ul class="legend figures">${series.map((one) => html`<li key=${one.name}><i class="swatch ${one.dash ? "dashed" : ""}" style=${{ borderColor: `var(--${one.colour})` }}></i>${one.label}${" "}
      <b>${one.show(history.latest(one.name))}</b></li>`)}</ul>
    <div class="plot" ref=${container} aria-hidden="true"></div>
  </figure>`;
}

const dataOf = (history, series) => [history.columns.at, ...series.map((one) => history.columns[one.name])];
