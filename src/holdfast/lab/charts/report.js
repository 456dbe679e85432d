// Draws the charts of a report. Mirrors Chart in chart.py.
const HEIGHT = 250;
const dark = matchMedia("(prefers-color-scheme: dark)");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const exact = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function seriesOf(chart) {
  const drawn = chart.series.map((one) => ({ ...one, shown: one.y }));
  if (chart.kind === "scatter") {
    drawn.unshift({ name: "arrival order", colour: 6, x: [0, 1], shown: [0, 1], isGuide: true });
  }
  if (chart.kind !== "stacked") return drawn;
  // Each area reaches down to zero, so the tallest is drawn first and the others cover it.
  const below = drawn[0].x.map(() => 0);
  for (const one of drawn) one.shown = one.y.map((value, index) => (below[index] += value));
  return drawn.reverse();
}

function styleOf(chart, one, raw) {
  const stroke = colour(`c${one.colour}`);
  const value = (_plot, _shown, _series, index) => (index == null || raw[index] == null ? "" : exact.format(raw[index]));
  const style = { label: one.name, stroke, value, spanGaps: true, points: { show: false }, width: 2 };
  if (one.isGuide) return { ...style, dash: [5, 5], width: 1 };
  if (chart.kind === "stacked") return { ...style, fill: stroke, width: 0 };
  if (chart.kind === "scatter") return { ...style, paths: () => null, points: { show: true, size: 4, width: 0, fill: stroke } };
  return style;
}

function axisOf(axis, size) {
  const style = { label: axis.label, labelFont: "12px system-ui", labelSize: 20, font: "12px system-ui", stroke: colour("soft"), size };
  const grid = { stroke: colour("line"), width: 1 };
  const made = { ...style, grid, ticks: { show: false }, values: (_plot, ticks) => ticks.map((tick) => (tick == null ? "" : short.format(tick))) };
  if (!axis.ticks) return made;
  return { ...made, splits: () => axis.ticks.map(([at]) => at), values: () => axis.ticks.map(([, label]) => label) };
}

const scaleOf = (axis) =>
  axis.is_log ? { distr: 3 } : { time: false, range: (_plot, _least, most) => [0, axis.top ?? (Math.max(most ?? 0, 0) * 1.05 || 1)] };

function draw(chart, place) {
  const drawn = seriesOf(chart);
  const join = (key) => uPlot.join(drawn.map((one) => [one.x, one[key] ?? one.shown]));
  const [data, raw] = [join("shown"), join("y")];
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    padding: [10, 28, 0, 0],
    legend: { markers: { fill: (plot, index) => plot.series[index].stroke?.() } },
    cursor: { drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: scaleOf(chart.x), y: scaleOf(chart.y) },
    axes: [axisOf(chart.x, 34), axisOf(chart.y, 52)],
    series: [{ label: chart.x.label, value: (_plot, value) => (value == null ? "" : exact.format(value)) },
      ...drawn.map((one, index) => styleOf(chart, one, raw[index + 1]))],
  };
  if (chart.x.ticks) options.series[0].value = () => "";
  return new uPlot(options, data, place);
}

for (const figure of document.querySelectorAll("figure")) {
  const chart = JSON.parse(figure.querySelector("script").textContent);
  const place = figure.querySelector(".plot");
  let plot = draw(chart, place);
  const redraw = () => { plot.destroy(); plot = draw(chart, place); };
  new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
  dark.addEventListener("change", redraw);
}
