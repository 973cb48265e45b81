/* Lines over time, drawn by uPlot in the colours of the page.

   uPlot draws on a canvas, which knows nothing of style sheets and tells nothing to a reader of
   screens. So colours are read from the page's tokens and read again when the theme changes, lines
   differ by dash as well as by colour, and each chart says its last values in words. uPlot is
   fetched when the first chart is shown. */

import { html, useEffect, useRef, useState, useTheme } from "./ui.js";
import { ABSENT, moment, text } from "./format.js";

let uplot = null;

async function plotter() {
  if (!uplot) {
    const sheet = document.createElement("link");
    sheet.rel = "stylesheet";
    sheet.href = "/pages/vendor/uplot.css";
    document.head.append(sheet);
    uplot = import("./vendor/uplot.js");
  }
  return (await uplot).default;
}

export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const DASHES = { solid: undefined, dash: [6, 4], dot: [1.5, 3] };

function options(Plot, { lines, unit, group, high, whole }, wide) {
  const ink = token("--ink-3");
  const grid = { stroke: token("--line"), width: 1 };
  const font = "11px Inter, system-ui, sans-serif";
  const short = (mark) => text(unit(mark)).replace(/\.0+(?=\D|$)/, "");
  const axis = { stroke: ink, font, grid, ticks: { show: false } };
  return {
    width: wide,
    height: high,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: group }, y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { x: { time: true }, y: { range: (_, low, top) => [0, top > 0 ? top * 1.08 : 1] } },
    axes: [
      { ...axis, space: 70, size: 26, values: [
        [3600, "{HH}:{mm}", "\n{D} {MMM}", null, null, null, null, null, 0],
        [60, "{HH}:{mm}", null, null, null, null, null, null, 0],
        [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 0],
      ] },
      { ...axis, space: 28, size: 58, incrs: whole ? WHOLE : undefined, values: (_, marks) => marks.map(short) },
    ],
    series: [{}, ...lines.map((line) => ({
      label: line.name,
      stroke: token(line.colour),
      width: line.width || 1.6,
      dash: DASHES[line.dash || "solid"],
      fill: line.fill ? `${token(line.colour)}1c` : undefined,
      points: { show: false },
      paths: line.steps ? Plot.paths.stepped({ align: 1 }) : undefined,
      spanGaps: false,
    }))],
  };
}

/** The sample in words: under the cursor, or the last. */
function Legend({ lines, columns, unit, at }) {
  const place = at === null ? columns[0].length - 1 : at;
  const when = columns[0][place];
  return html`<div class="legend"><span class="legend-when">
      ${at === null || when === undefined ? "latest" : moment(when)}</span>
    ${lines.map((line, index) => {
      const value = columns[index + 1][place];
      return html`<span class="legend-one" key=${line.name}>
          <svg class="legend-mark" viewBox="0 0 18 6" aria-hidden="true"><line x1="0"
        y1="3" x2="18" y2="3" style=${{ stroke: `var(${line.colour})` }}
            stroke-dasharray=${(DASHES[line.dash] || []).join(" ")}
        /></svg>${line.name} <b>${value === null || value === undefined ? ABSENT : text(unit(value))}</b></span>`;
    })}</div>`;
}

/** `columns` is [seconds, values of the first line, ...]; `unit` makes [value, unit] of a number;
 * `whole`: its axis has no fractions. */
export function Chart({ title, lines, columns, unit, group = "page", high = 150, whole = false, from, until }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null);
  const theme = useTheme();
  useEffect(() => {
    let gone = false;
    const box = place.current;
    const watch = new ResizeObserver(() => plot.current
      && plot.current.setSize({ width: Math.max(120, box.clientWidth), height: high }));
    plotter().then((Plot) => {
      if (gone) return;
      const made = options(Plot, { lines, unit, group, high, whole }, Math.max(120, box.clientWidth));
      if (from) made.scales.x.range = () => [box.from, box.until];
      made.hooks = { setCursor: [(u) => setAt(u.cursor.idx ?? null)] };
      plot.current = new Plot(made, columns, box);
      watch.observe(box);
    });
    return () => {
      gone = true;
      watch.disconnect();
      if (plot.current) plot.current.destroy();
      plot.current = null;
    };
  }, [theme, title]);
  useEffect(() => {
    place.current.from = from;
    place.current.until = until;
    if (plot.current) plot.current.setData(columns);
  });
  const words = lines.map((line, index) => {
    const last = columns[index + 1].at(-1);
    return `${line.name} ${last === null || last === undefined ? "unknown" : text(unit(last))}`;
  });
  return html`<figure class="chart" role="group" aria-label=${title}>
    <figcaption><h3>${title}</h3><${Legend} lines=${lines} columns=${columns} unit=${unit} at=${at} /></figcaption>
    <div class="chart-place" ref=${place} role="img" aria-label=${`${title}, latest: ${words.join(", ")}`}></div>
    ${columns[0].length < 2 && html`<p class="chart-none">Nothing to draw yet: a point comes each minute.</p>`}
  </figure>`;
}
